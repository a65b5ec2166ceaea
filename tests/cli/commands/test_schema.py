"""`windlass schema`."""

import json

from click.testing import CliRunner

from windlass.cli.main import main
from windlass.jobfile import schema


def test_printed_schema_is_the_published_one() -> None:
    done = CliRunner().invoke(main, ["schema"])

    assert done.exit_code == 0
    assert done.stdout_bytes == schema.read_published()
    assert json.loads(done.stdout)["$id"] == schema.ID
