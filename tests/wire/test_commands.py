"""Commands of a job: which need a shell, and their result after Kubernetes has expanded variables."""

import subprocess

import pytest

from windlass.localcluster.kubelet.containers import expansion
from windlass.wire import commands

VARIABLES = {"PS_HOSTS": "a:1,b:2", "ps_hosts": "a:1", "MESSAGE": "two  words", "steps": "7", "HOME": "/root"}

DIRECT = {
    "words": ("python train.py --steps 200", ["python", "train.py", "--steps", "200"]),
    "spaces around": ("  python   train.py\n", ["python", "train.py"]),
    "quotes": ("python -c 'print(1); x' \"a b\"", ["python", "-c", "print(1); x", "a b"]),
    "an option with a value": ("python train.py --lr=0.1", ["python", "train.py", "--lr=0.1"]),
    "a variable of a runtime": ("train --ps=$(PS_HOSTS)", ["train", "--ps=$(PS_HOSTS)"]),
    "one in lower case": ("train --ps=$(ps_hosts)", ["train", "--ps=$(ps_hosts)"]),
    "one of the job": ("train $(steps)", ["train", "$(steps)"]),
    "one in quotes": ('train "--ps=$(PS_HOSTS)"', ["train", "--ps=$(PS_HOSTS)"]),
    "no variable, in quotes": ("train '$(date)' '$$'", ["train", "$$(date)", "$$$"]),
    "a hash within a word": ("train a#b", ["train", "a#b"]),
    "an escaped character": (r"train a\;b", ["train", "a;b"]),
    "braces within a word": ("train --re=a{2}", ["train", "--re=a{2}"]),
}


@pytest.mark.parametrize(("command", "words"), DIRECT.values(), ids=DIRECT.keys())
def test_simple_command_runs_without_a_shell(command: str, words: list[str]) -> None:
    assert commands.container_arguments(command, ("steps",)) == words


SHELL = {
    "two commands": "echo a; exit 3",
    "and": "cd x && python train.py",
    "a pipe": "python train.py | tee log",
    "a redirection": "python train.py > log",
    "a variable of the shell": "python train.py $HOME",
    "one in braces": "python train.py ${HOME}",
    "one in quotes": 'python train.py "$HOME"',
    "a pattern": "ls *.py",
    "a home": "python ~/train.py",
    "a comment": "python train.py # fast",
    "an assignment": "STEPS=3 python train.py",
    "two lines": "echo a\necho b",
    "a line that goes on": "python train.py \\\n  --steps 3",
    "a word that only a shell knows": "exit 3",
    "a command inside": "echo $(date)",
    "backquotes": "echo `date`",
    "negation": "! false",
}


@pytest.mark.parametrize("command", SHELL.values(), ids=SHELL.keys())
def test_command_with_shell_syntax_runs_in_a_shell(command: str) -> None:
    assert commands.container_arguments(command)[:2] == ["/bin/sh", "-c"]


def test_list_runs_without_a_shell() -> None:
    written = ("sh", "-c", "echo $(date) $$ | cat")
    assert commands.container_arguments(written) == list(written)


@pytest.mark.parametrize("command", ["echo 'a", 'echo "a', "echo a\\"])
def test_invalid_shell_syntax_is_rejected(command: str) -> None:
    with pytest.raises(ValueError, match=r"quotation|character"):
        commands.container_arguments(command)


MEANT = {
    "a variable stays one value": ("printf '%s|' \"$(MESSAGE)\"; echo", "two  words|\n"),
    "and needs no shell": (r"printf %s\| $(MESSAGE)", "two  words|"),
    "a list of hosts": ("echo $(PS_HOSTS) && echo", "a:1,b:2\n\n"),
    "a command in a command": ("echo $(echo inner) $(PS_HOSTS)", "inner a:1,b:2\n"),
    "a calculation": ("echo $((1 + 2))", "3\n"),
    "dollars in quotes": ("echo '$$' '$(MESSAGE' '$x'", "$$ $(MESSAGE $x\n"),
    "a process": ("test $$ -gt 1 && echo yes", "yes\n"),
    "the shell's own variable": ("x=5; echo ${x}$x", "55\n"),
    "two lines": ("echo a\necho b\n", "a\nb\n"),
    "one of the job, in lower case": ("echo $(steps) | cat", "7\n"),
}


@pytest.mark.parametrize(("command", "output"), MEANT.values(), ids=MEANT.keys())
def test_command_prints_what_its_author_wrote(command: str, output: str) -> None:
    words = [expansion.expand(word, VARIABLES) for word in commands.container_arguments(command, VARIABLES)]
    done = subprocess.run(words, env={**VARIABLES, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)  # noqa: S603
    assert (done.stdout, done.stderr) == (output, "")
