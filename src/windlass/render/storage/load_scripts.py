"""Shell scripts of the load-data Job. They use the programs that the image has, e.g. curl, wget or python3.

Except for DONE, their first arguments are the target folder and the marker file. Downloads are written to a temporary
folder whose name begins with a dot, so that an incomplete download never has its final name.
"""

DONE = "echo 'all data is loaded'"

_NO_TAR = "the image has neither tar nor python3: set another image in loadData"
_START = """\
set -eu
to=$1
marker=$2
shift 2
fail() { echo "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
mkdir -p "$to" || fail "cannot create $to: check that the volume is mounted and writable"
cd "$to"
[ ! -L "$marker" ] || fail "$to/$marker is a link. Remove it"
if [ -e "$marker" ]; then
  echo "$to: already loaded"
  exit 0
fi
"""
_END = """\
: >"$marker"
echo "$to: loaded"
"""

COMMAND = _START + '"$@"\n' + _END
"""Run a command. The other arguments are its words."""

LOCAL_FOLDER = (
    _START
    + """\
[ -e "$1" ] || fail "$1 does not exist on this machine"
if [ -d "$1" ]; then cp -R "$1/." .; else cp "$1" .; fi
"""
    + _END
)
"""Copy a folder or a file of this machine."""

ARCHIVED_FOLDER = (
    _START
    + f"""\
if has tar; then tar -xzof "$1"
elif has python3; then python3 -m tarfile -e "$1" .
else fail "{_NO_TAR}"
fi
"""
    + _END
)
"""Unpack an archive created by Windlass."""

_DOWNLOAD = """\
url=$1
sum=$2
name=$3
stage=$marker.part
rm -rf "$stage"
mkdir "$stage"
trap 'rm -rf "$to/$stage"' EXIT
trap 'exit 143' TERM INT
if has curl; then curl -fsSL -o "$stage/file" "$url"
elif has wget; then wget -q -O "$stage/file" "$url"
elif has python3; then python3 -c '
import shutil, sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1]) as answer, open(sys.argv[2], "wb") as file:
        shutil.copyfileobj(answer, file)
        length = answer.headers.get("Content-Length")
        sys.exit(0 if length is None or int(length) == file.tell() else "the connection was closed early")
except OSError as error:
    sys.exit(str(error))
' "$url" "$stage/file"
else fail "the image has neither curl nor wget nor python3: set another image in loadData"
fi || fail "cannot download $url"
if [ -n "$sum" ]; then
  if has sha256sum; then found=$(sha256sum <"$stage/file")
  elif has shasum; then found=$(shasum -a 256 <"$stage/file")
  elif has python3; then
    found=$(python3 -c '
import hashlib, sys
digest = hashlib.sha256()
for block in iter(lambda: sys.stdin.buffer.read(1 << 20), b""):
    digest.update(block)
print(digest.hexdigest())
' <"$stage/file")
  else fail "the image has neither sha256sum nor shasum nor python3: set another image in loadData"
  fi
  found=${found%% *}
  [ "$found" = "$sum" ] || fail "wrong checksum of $url: found sha256 $found, expected $sum"
fi
"""
_UNPACK = """\
outside="$url contains a path outside its folder and was not unpacked"
mkdir "$stage/all"
free=
if has df; then free=$(df -P -k . 2>/dev/null | { read -r _; read -r _ _ _ free _; echo "$free"; }); fi
case $free in *[!0-9]*) free= ;; esac
too_large="$url was not unpacked: it needs more space than the volume has"
# Some programs change such a path and only print a message.
require_unchanged_names() {
  if grep -Eiq '^(tar|unzip): removing leading|^warning: +skipped "' "$stage/said"; then fail "$outside"; fi
}
"""
_UNPACK_TAR = f"""\
if has tar; then
  tar -t@f "$stage/file" >"$stage/members" 2>"$stage/said" || fail "$url is not an archive or is damaged"
  if grep -Eq '^/|(^|/)[.][.](/|$)' "$stage/members"; then fail "$outside"; fi
  require_unchanged_names
  # A small compressed archive can contain terabytes.
  if [ "@" = z ] && [ -n "$free" ] && has gzip && has head && has wc; then
    size=$(gzip -dc "$stage/file" 2>/dev/null | head -c $((free * 1024 + 1)) | wc -c)
    [ "$size" -le $((free * 1024)) ] || fail "$too_large ($free KiB)"
  fi
  tar -xo@f "$stage/file" -C "$stage/all" || fail "cannot unpack $url"
elif has python3; then
  python3 -c '
import shutil, sys, tarfile
def leads_out(name):
    return name.startswith("/") or ".." in name.split("/")
free = shutil.disk_usage(sys.argv[2]).free
with tarfile.open(sys.argv[1]) as archive:
    for member in archive:
        free -= member.size
        if free < 0:
            sys.exit("it needs more space than the volume has")
        is_safe = member.isfile() or member.isdir() or member.issym()
        if not is_safe or leads_out(member.name) or (member.issym() and leads_out(member.linkname)):
            sys.exit("found " + member.name)
    archive.extractall(sys.argv[2])
' "$stage/file" "$stage/all" || fail "$outside, or it is damaged"
else fail "{_NO_TAR}"
fi
"""
_UNPACK_ZIP = """\
if has python3; then
  python3 -c '
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    if sum(each.file_size for each in archive.infolist()) > shutil.disk_usage(sys.argv[2]).free:
        sys.exit("it needs more space than the volume has")
    for name in archive.namelist():
        if name.startswith("/") or ".." in name.split("/"):
            sys.exit("found " + name)
    archive.extractall(sys.argv[2])
' "$stage/file" "$stage/all" || fail "$outside, or it is damaged"
elif has unzip; then
  has_failed=0
  unzip -o "$stage/file" -d "$stage/all" >"$stage/said" 2>&1 || has_failed=1
  require_unchanged_names
  [ $has_failed = 0 ] || fail "$url is not an archive or is damaged"
else fail "the image has neither python3 nor unzip: set another image in loadData"
fi
"""
_PLACE = """\
# Fail with a message if `find` finds a path. A message that ends with a colon is followed by the paths.
forbid() {
  message=$1
  shift
  LC_ALL=C find "$@" >"$stage/found" || fail "cannot check the files in $url"
  [ -s "$stage/found" ] || return 0
  case $message in *:) message="$message $(cat "$stage/found")" ;; esac
  fail "$message"
}
forbid "$url contains a name with a control character and was not unpacked" "$stage/all" -name '*[[:cntrl:]]*'
forbid "$url contains a name that begins with ${marker%-*}- and was not unpacked" \
  "$stage/all" -name "${marker%-*}-*"
forbid "$url contains a device, a pipe or a socket and was not unpacked" \
  "$stage/all" ! -type f ! -type d ! -type l
# Links are checked in two folders, one after the other: a link that leads out of its folder and back in by name is
# valid only in one of them, and would lead elsewhere in the target folder.
for folder in "$stage/all" "$stage/checked"; do
  [ -e "$folder" ] || mv "$stage/all" "$folder"
  root=$(cd "$folder" && pwd -P)
  forbid "$outside" "$folder" -type l -exec sh -c '
    root=$1
    shift
    for link; do
      case $(readlink -f "$link") in "$root"/*) ;; *) echo "$link" ;; esac
    done
  ' sh "$root" {} +
done
forbid "$url was not unpacked, because it would write through these links in $to:" \
  "$stage/checked" ! -type l -exec sh -c '
    top=$1
    shift
    for path; do
      [ ! -L "./${path#"$top"}" ] || echo "${path#"$top"/}"
    done
  ' sh "$stage/checked" {} +
# A file with a hard link outside has more names than the archive contains.
if has awk && has ls; then
  find "$stage/checked" -type f -links +1 -exec ls -ldi {} + | awk '
    { found[$1]++; links[$1] = $3 }
    END { for (file in found) if (found[file] < links[file]) exit 1 }
  ' || fail "$outside"
fi
find "$stage/checked" -type f '(' -perm -4000 -o -perm -2000 ')' -exec chmod u-s,g-s {} +
# Remove links that the new ones replace: `cp` and `mv` would follow them.
find "$stage/checked" -type l -exec sh -c '
  top=$1
  shift
  for path; do
    [ ! -L "./${path#"$top"}" ] || rm -f "./${path#"$top"}"
  done
' sh "$stage/checked" {} +
for entry in "$stage/checked"/* "$stage/checked"/.[!.]* "$stage/checked"/..?*; do
  if [ -e "$entry" ] || [ -L "$entry" ]; then
    target=./${entry##*/}
    if [ -d "$entry" ] && [ ! -L "$entry" ] && [ -d "$target" ]; then cp -R "$entry/." "$target/"
    else mv -f "$entry" "$target"
    fi
  fi
done
"""
_PLACE_FILE = """\
[ ! -L "./$name" ] || fail "$to/$name is a link. Remove it"
mv -f "$stage/file" "./$name"
"""


def _archive(unpacking: str) -> str:
    """Return a script that downloads an archive, unpacks it in a temporary folder, checks it and moves the files to the
    target folder."""
    return _START + _DOWNLOAD + _UNPACK + unpacking + _PLACE + _END


DOWNLOADS = {
    "file": _START + _DOWNLOAD + _PLACE_FILE + _END,
    "tar": _archive(_UNPACK_TAR.replace("@", "")),
    "tar.gz": _archive(_UNPACK_TAR.replace("@", "z")),
    "zip": _archive(_UNPACK_ZIP),
}
"""Scripts by file type. Further arguments: URL, sha256 or an empty string, file name."""
