"""Write objects as YAML, with features that JSON lacks."""

import json
from random import Random
from typing import Any

import yaml

_LAUGHS = "\n".join(
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)),
    ]
)
_LONG = 20_000
_ENDINGS = (
    "\n---\n{}",
    "\n...\n",
    "\nx: &x [*x]\n",
    "\nx: !!python/object/apply:os.system ['true']\n",
    "\nx: !!binary AAEC\n",
    "\nx: !own 1\n",
    "\n<<: {kind: Other}\n",
    "\n? [a, b]\n: c\n",
    "\n1: 2\ntrue: false\nnull: null\n1.5: 2024-01-01\n",
    "\nx: 2024-01-01T00:00:00Z\ny: 0o17\nz: 1_000\nw: .inf\nv: .nan\nu: 190:20:30\nt: yes\n",
    "\nkind: Twice\nkind: Thrice\n",
    "\nx: *nowhere\n",
    "\n\tx: 1\n",
    "\nx: 'unfinished\n",
    "\nx: |\n  " + "long " * 5000 + "\n",
    f"\n{_LAUGHS}\n",
    "\nx: " + "[" * 3000 + "\n",
    "\nx: \u0085\u2028\ufeff\0\n",
    "\n%YAML 9.9\n--- a\n",
)


def yaml_text(value: Any, dice: Random) -> bytes:
    """Write large or deep values as JSON, which is valid YAML and faster."""
    written = json.dumps(value)
    is_shallow = "[" * 20 not in written and '{"a": ' * 20 not in written
    if len(written) < _LONG and is_shallow and dice.random() < 0.7:
        written = yaml.safe_dump(value, allow_unicode=dice.random() < 0.5)
    if dice.random() < 0.5:
        written += dice.choice(_ENDINGS)
    if dice.random() < 0.1:
        written = written[: dice.randrange(len(written) + 1)]
    return written.encode("utf-8", "surrogatepass")
