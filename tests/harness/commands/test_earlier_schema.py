"""Every command that reads run directories refuses one of an earlier release."""

import pytest

from tests.support.commands import call
from tests.support.files import update_json
from tests.support.synthetic_runs import cell, write

COMMANDS = ("report {}", "show {}", "compare {} {}", "audit {}", "compliance {}", "pack {} --out")
_CODES = {"audit": 1}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_of_an_earlier_schema_is_refused_by_its_name(command, tmp_path, capsys):
    (run,) = write(tmp_path / "runs", cell(), [100])
    for name, schema in (("record.json", "record-2"), ("result.json", "result-1")):
        update_json(run / name, schema=schema)
    words = command.replace("{}", str(run)).split()
    if words[0] == "pack":
        words.append(str(tmp_path / "out"))
    code, out, error = call(words, capsys)
    said = out + error
    assert code == _CODES.get(words[0], 2)
    assert "is of an earlier release (its schema is" in " ".join(said.split())
    assert "record-2" in said or "result-1" in said
