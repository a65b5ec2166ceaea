# shellcheck shell=sh
# Sourced by a container's command, in bash or any POSIX shell: waits until every task of the Framework has an address, then
# sets and exports worker_hosts and ps_hosts, separated by commas and in the order of the tasks.
#
#     framework_name               whose tasks (default: $FC_FRAMEWORK_NAME)
#     worker_port, ps_port         with it the list holds ip:port, without it bare IPs
#     worker_tasknum, ps_tasknum   the first so many tasks (default: all of them)
#
# When it fails it says why, returns non-zero as `windlass barrier` does (201: not in time, 210: never) and exports nothing.
# All of it happens in a subshell, which prints what is to be set or, however it ends, its status: the shell that sources
# this keeps its options, and gets no other variable and no function.
eval "$(
(
    IFS=,

    get_ips_fail() { # STATUS WORDS
        printf 'get_ips.sh: %s\n' "$2" >&2
        exit "$1"
    }

    # A variable that is not set, or empty, is none.
    get_ips_check_number() { # NAME LEAST MOST
        eval "get_ips_value=\${$1:-}"
        case $get_ips_value in
            ('') return ;;
            (*[!0-9]* | ??????*) ;;
            (*) [ "$get_ips_value" -ge "$2" ] && [ "$get_ips_value" -le "$3" ] && return ;;
        esac
        get_ips_fail 210 "$1 is \"$get_ips_value\": expected a number from $2 to $3"
    }

    # Puts the first TASKNUM of the IPs, each with PORT, into get_ips_hosts.
    get_ips_join() { # ROLE TASKNUM PORT IP…
        get_ips_role=$1 get_ips_tasknum=$2 get_ips_port=$3 get_ips_taken=0 get_ips_hosts=
        shift 3
        if [ "${get_ips_tasknum:=$#}" -gt $# ]; then
            get_ips_fail 210 "${get_ips_role}_tasknum is $get_ips_tasknum, but $get_ips_whose has $# in role \"$get_ips_role\""
        fi
        for get_ips_host do
            [ "$get_ips_taken" -lt "$get_ips_tasknum" ] || break
            get_ips_taken=$((get_ips_taken + 1))
            case $get_ips_port,$get_ips_host in
                (,*) ;;
                (*:*) get_ips_host="[$get_ips_host]:$get_ips_port" ;; # IPv6
                (*) get_ips_host="$get_ips_host:$get_ips_port" ;;
            esac
            get_ips_hosts=${get_ips_hosts:+$get_ips_hosts,}$get_ips_host
        done
    }

    get_ips_own=${FC_FRAMEWORK_NAME:-}
    get_ips_name=${framework_name:-$get_ips_own}
    get_ips_whose="Framework \"$get_ips_name\""
    [ -n "$get_ips_name" ] || get_ips_fail 210 'whose addresses? Neither framework_name nor FC_FRAMEWORK_NAME is set'
    get_ips_check_number worker_tasknum 0 99999
    get_ips_check_number ps_tasknum 0 99999
    get_ips_check_number worker_port 1 65535
    get_ips_check_number ps_port 1 65535

    get_ips_hint=
    if [ "$get_ips_name" = "$get_ips_own" ]; then
        get_ips_printed=$(windlass barrier --print-hosts)
    else
        get_ips_hint=${get_ips_own:+; this pod belongs to \"$get_ips_own\"}
        get_ips_printed=$(windlass barrier --print-hosts --framework "$get_ips_name")
    fi
    case $? in
        (0) ;;
        (127) get_ips_fail 127 'windlass is needed, and is not in the PATH of this image' ;;
        (201) get_ips_fail 201 "not every task of $get_ips_whose has got an address in time" ;;
        (210) get_ips_fail 210 "cannot wait for $get_ips_whose$get_ips_hint" ;;
        (*) get_ips_fail 1 "cannot read the addresses of $get_ips_whose$get_ips_hint" ;;
    esac

    # Only what was printed now counts, and a role may have no tasks.
    windlass_worker_ips= windlass_ps_ips=
    eval "$get_ips_printed" || exit
    # shellcheck disable=SC2086 # split at commas
    get_ips_join worker "${worker_tasknum:-}" "${worker_port:-}" $windlass_worker_ips
    get_ips_workers=$get_ips_hosts
    # shellcheck disable=SC2086
    get_ips_join ps "${ps_tasknum:-}" "${ps_port:-}" $windlass_ps_ips
    printf "worker_hosts='%s'; ps_hosts='%s'; export worker_hosts ps_hosts\n" "$get_ips_workers" "$get_ips_hosts"
) || printf 'return %s\n' "$?"
)" || return # without this, dash's `set -e` ends the shell even where the sourcing is tested
