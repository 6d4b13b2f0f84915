"""Prompts in the files that people have: rows, columns, encodings, messages."""

import gzip
import json
import shlex
import subprocess
import sys

import pytest

from harness.errors import UsageError
from harness.inputs.chat import Template
from harness.inputs.prompt_files import PromptOptions, read

ROLES = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
CHAT = PromptOptions(chat=Template(ROLES, {}))


def texts(tmp_path, name, data, options=None):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    prompts, notes = read(path, options)
    return [prompt.text for prompt in prompts], notes


def refused(tmp_path, name, data, words, options=None):
    with pytest.raises(UsageError, match=words) as error:
        texts(tmp_path, name, data, options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("field", ["text", "question", "instruction", "input"])
def test_the_usual_names_of_a_prompt_are_known_and_told(tmp_path, field):
    found, notes = texts(tmp_path, "rows.jsonl", json.dumps({field: "one"}) + "\n")
    note = f"the prompts of rows.jsonl are its `{field}`; --field names another"
    assert (found, notes) == (["one"], (note,))


def test_the_first_of_several_names_is_taken_and_another_can_be_named(tmp_path):
    rows = json.dumps({"text": "whole", "prompt": "short", "mine": "own"})
    found, notes = texts(tmp_path, "rows.jsonl", rows)
    note = "the prompts of rows.jsonl are its `prompt`; --field names another"
    assert (found, notes[0]) == (["short"], note)
    found, notes = texts(tmp_path, "rows.jsonl", rows, PromptOptions(field="mine"))
    assert (found, notes) == (["own"], ("fields of rows.jsonl that are not used: prompt, text",))


@pytest.mark.parametrize("name", ["ROWS.JSONL", "rows.Jsonl", "rows.NDJSON"])
def test_json_lines_are_known_by_their_ending_in_any_case(tmp_path, name):
    data = '{"prompt": "one"}\n{"prompt": "\\ud83d\\ude00"}\n'
    assert texts(tmp_path, name, data)[0] == ["one", "\U0001f600"]


def test_the_input_of_an_instruction_follows_it(tmp_path):
    rows = '{"instruction": "Add.", "input": "1 2", "output": "3"}\n{"instruction": "Hi", "input": ""}\n'
    found, notes = texts(tmp_path, "rows.jsonl", rows)
    assert found == ["Add.\n\n1 2", "Hi"]
    assert notes[-1] == "fields of rows.jsonl that are not used: output"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", 'id,question\n1,"one, two"\n2,"a ""b""\nc"\n'),
        ("a.CSV", 'id;question\r\n1;one, two\r\n2;"a ""b""\r\nc"\r\n'),
        ("a.tsv", 'id\tquestion\n1\tone, two\n2\t"a ""b""\nc"'),
    ],
)
def test_a_column_of_a_table_has_the_prompts(tmp_path, name, data):
    found, notes = texts(tmp_path, name, data)
    assert found == ["one, two", 'a "b"\nc']
    assert notes[-1] == f"fields of {name} that are not used: id"


def test_numbers_of_a_table_are_numbers_and_lines_those_of_the_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('prompt,max_new_tokens,label\n"a\nb",7,1\n\nc,,2\n')
    prompts, _ = read(path, labels=True)
    assert [(p.line, p.max_new_tokens, p.label) for p in prompts] == [(2, 7, 1), (5, None, 2)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_with_a_mark_and_line_ends_of_windows_change_nothing(tmp_path, encoding, end):
    for name, lines in (
        ("a.txt", ["süß", "und", "", "日本"]),
        ("a.jsonl", ['{"prompt": "süß\\nund"}', '{"prompt": "日本"}', ""]),
        ("a.csv", ["prompt", '"süß', 'und"', "日本", ""]),
    ):
        found, notes = texts(tmp_path, name, end.join(lines).encode(encoding))
        assert (found, notes) == (["süß\nund", "日本"], ())


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.jsonl", '{"id": "x"}', r"a\.jsonl:1: no field is a prompt \(prompt, text, .*--field"),
        ("a.jsonl", '{"text": "x"}\n{"prompt": "y"}', r"a\.jsonl:2: .*non-empty string `text`"),
        ("a.csv", "prompt,id\nx,1\ny\n", r"a\.csv:3: 1 fields, and the header names 2"),
        ("a.csv", "prompt,id\nx,1\n,2\n", r"a\.csv:3: .*non-empty string `prompt`"),
        ("a.csv", "prompt,prompt\nx,1\n", r"a\.csv:1: the header names a column twice"),
        ("a.csv", 'prompt,id\n"x"y,1\n', r"a\.csv:2: not CSV"),
        ("a.csv", "prompt,max_new_tokens\nx,many\n", r"a\.csv:2: .*whole number .* 'many'"),
        ("a.csv", "prompt\n", "no prompt in it"),
        ("a.txt", "a\nb".encode("utf-16-le"), r"a\.txt:1: a character is zero"),
        ("a.txt", b"\xff\xfea\0\n\0b", r"a\.txt:2: not UTF-16 \(byte 0x62\)"),
        ("a.txt", b"\xef\xbb\xbfa\n\xff", r"a\.txt:2: not UTF-8 \(byte 0xff\)"),
        ("a.jsonl", '{"messages": [{"role": "user", "content": "x"}]}', ":1: .*give --chat"),
    ],
)
def test_a_bad_line_is_named_with_its_rule(tmp_path, name, data, words):
    refused(tmp_path, name, data, words)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("not json", "not JSON"),
        ("", "an empty line"),
        ("[1]", "non-empty string `prompt`"),
        ('{"text": "x"}', "non-empty string `prompt`"),
        ('{"prompt": ""}', "non-empty string `prompt`"),
        ('{"prompt": 3}', "non-empty string `prompt`"),
        ('{"prompt": "x", "max_new_tokens": 0}', "whole number from 1 on"),
        ('{"prompt": "x", "max_new_tokens": "9"}', "whole number from 1 on"),
        ('{"prompt": "x", "max_new_tokens": true}', "whole number from 1 on"),
        ('{"prompt": "a \\ud800 b"}', "half of a surrogate pair"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, bad, words):
    data = f'{{"prompt": "good"}}\n{bad}\n{{"prompt": "good"}}\n'
    refused(tmp_path, "rows.jsonl", data, rf"rows\.jsonl:2: .*{words}")


def test_paragraphs_are_prompts_with_their_lines(tmp_path):
    text = "first line\n  second line\n\n\n \nnext paragraph"
    found, notes = texts(tmp_path, "a.txt", text)
    assert (found, notes) == (["first line\n  second line", "next paragraph"], ())
    assert [prompt.line for prompt in read(tmp_path / "a.txt")[0]] == [1, 6]


def test_lines_without_an_empty_line_are_prompts_and_told(tmp_path):
    found, notes = texts(tmp_path, "a.txt", "\n \none \ntwo\n three\n\n")
    assert found == ["one ", "two", " three"]
    assert notes == (
        "a.txt has 3 lines and no empty line, so each line is a prompt; in a .jsonl file a prompt"
        " may have several lines",
    )
    prompts, _ = read(tmp_path / "a.txt")
    assert [prompt.line for prompt in prompts] == [3, 4, 5]
    assert texts(tmp_path, "a.txt", "one\n\n") == (["one"], ())
    assert texts(tmp_path, "a.txt", "one\n\ntwo\nmore") == (["one", "two\nmore"], ())


def test_a_field_of_a_text_is_refused(tmp_path):
    words = r"--field x: names a field of \.jsonl, .*a\.txt is read as text"
    refused(tmp_path, "a.txt", "one", words, PromptOptions(field="x"))


def test_json_is_refused_with_the_command_that_converts_it(tmp_path):
    path = tmp_path / "ein Satz.json"
    path.write_text('[{"prompt": "süß"}, {"prompt": "b"}]', encoding="utf-8")
    with pytest.raises(UsageError, match=r"\.json is not read") as error:
        read(path)
    _, *rest = shlex.split(str(error.value).partition("new file: ")[2])
    subprocess.run([sys.executable, *rest], check=True)
    assert [p.text for p in read(tmp_path / "ein Satz.jsonl")[0]] == ["süß", "b"]


def test_parquet_is_refused_with_the_command_that_converts_it(tmp_path):
    words = "bin/uv run --no-project --with pyarrow python -c .*pyarrow.parquet.* .*a.jsonl"
    refused(tmp_path, "a.parquet", b"PAR1", words)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.jsonl", gzip.compress(b"{}"), "is no text but gzip: unpack it with gunzip"),
        ("a.txt", b"\x89PNG\r\n", "is no text but a picture"),
        ("a.csv", b"PK\x03\x04", "save its sheet as CSV"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl:1: not JSON .its values are nested too deeply"),
        ("a.jsonl", b'{"prompt": "a", "prompt": "b"}', "has the key 'prompt' twice"),
        ("a.jsonl", b'{"prompt": NaN}', "a number is NaN"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_what_it_is(tmp_path, name, data, words):
    refused(tmp_path, name, data, words)


@pytest.mark.parametrize("options", [None, CHAT])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_a_file_without_a_prompt_is_refused(tmp_path, name, options):
    refused(tmp_path, name, b"", "no prompt in it", options)
    if name == "a.txt":
        refused(tmp_path, name, b"\n \n", "no prompt in it", options)


def test_lines_may_end_with_cr_only(tmp_path):
    assert texts(tmp_path, "a.txt", "one\rmore\r\rtwo\r")[0] == ["one\nmore", "two"]
    assert texts(tmp_path, "a.csv", "prompt,id\rone,1\r")[0] == ["one"]
    assert texts(tmp_path, "a.txt", "a\rb\n\nc")[0] == ["a\rb", "c"]


def test_a_cell_may_be_long(tmp_path):
    text = "many words " * 20_000
    assert texts(tmp_path, "a.csv", f"id,prompt\n1,{text}\n")[0] == [text]


def test_a_chat_template_makes_one_turn_of_a_text(tmp_path):
    turns = [f"[user]{text}[assistant]" for text in ("one", "two")]
    assert texts(tmp_path, "a.txt", "one\n\ntwo", CHAT)[0] == turns
    assert texts(tmp_path, "a.csv", "prompt\none\n", CHAT)[0] == ["[user]one[assistant]"]


def test_messages_are_rendered_without_the_answer_at_their_end(tmp_path):
    talk = [("system", "be brief"), ("user", "hi"), ("assistant", "ho"), ("user", "more")]
    rows = [[{"role": role, "content": content} for role, content in talk[:n]] for n in (4, 3)]
    data = "".join(json.dumps({"prompt": "x", "messages": row}) + "\n" for row in rows)
    found, notes = texts(tmp_path, "a.jsonl", data, CHAT)
    assert found == [
        "[system]be brief[user]hi[assistant]ho[user]more[assistant]",
        "[system]be brief[user]hi[assistant]",
    ]
    assert notes[:2] == (
        "the prompts of a.jsonl are its `messages`; --field names another",
        "a.jsonl: conversations that end with an answer: 1; it is left out, because the model is to"
        " give it",
    )


def test_the_text_parts_of_a_message_are_its_text(tmp_path):
    parts = [{"type": "text", "text": "hi "}, {"type": "text", "text": "you"}]
    rows = [parts, "hi you"]
    rows = [{"messages": [{"role": "user", "content": content}]} for content in rows]
    data = "".join(json.dumps(row) + "\n" for row in rows)
    found, _ = texts(tmp_path, "a.jsonl", data, CHAT)
    assert found == ["[user]hi you[assistant]"] * 2


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (3, "each message is an object"),
        ({"role": "user"}, "each message is an object"),
        ({"role": "user", "content": None}, "each message is an object"),
        ({"role": "user", "content": []}, "each message is an object"),
        (
            {"role": "user", "content": ["x"]},
            "only text parts are read, and one is of the type 'x'",
        ),
        ({"role": "user", "content": [{"type": "image_url"}]}, "only text parts .*'image_url'"),
        ({"role": "user", "content": [{"type": "text"}]}, "a text part has a string `text`"),
    ],
)
def test_a_bad_message_is_named_by_its_line(tmp_path, message, words):
    data = json.dumps({"messages": [{"role": "assistant", "content": None}, message]})
    refused(tmp_path, "a.jsonl", data, f":1: `messages`: {words}", CHAT)
