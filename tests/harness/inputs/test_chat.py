"""Chat templates: found, rendered, named in the cell."""

import json
import shlex
from datetime import datetime

import pytest

from harness.errors import UsageError
from harness.inputs import chat
from harness.request import options
from harness.request.flags import Parser
from harness.sweep import cells
from tests.support.cells import WHERE, request
from tests.support.tokens import bpe
from tests.support.weights_folders import made

USER = [{"role": "user", "content": "hi"}]
THINKING = """
{%- for message in messages %}
    {{- bos_token + '<' + message.role + '>' + message.content }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<assistant>' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<no thinking>' }}
    {%- endif %}
{%- endif %}"""


def folder(path, template, **settings):
    path.mkdir(exist_ok=True)
    document = {"chat_template": template, "bos_token": "<s>", **settings}
    (path / "tokenizer_config.json").write_text(json.dumps(document), encoding="utf-8")
    return path


def rendered(path, *options, name="default"):
    return chat.of_folder(path, name, options).texts({"file:1": USER})[0]


def test_the_folders_template_gets_its_tokens_and_the_beginning_of_an_answer(tmp_path):
    assert rendered(folder(tmp_path, THINKING)) == "<s><user>hi<assistant>"
    token = {"content": "<b>", "lstrip": False}
    assert rendered(folder(tmp_path, THINKING, bos_token=token)) == "<b><user>hi<assistant>"
    (tmp_path / "special_tokens_map.json").write_text('{"bos_token": "<c>"}')
    assert rendered(tmp_path) == "<c><user>hi<assistant>"
    assert rendered(folder(tmp_path, THINKING, added_tokens_decoder={})).startswith("<s>")


@pytest.mark.parametrize(("value", "end"), [("false", "<no thinking>"), ("true", "<assistant>")])
def test_a_variable_of_the_template_can_be_set_and_changes_the_digest(tmp_path, value, end):
    path = folder(tmp_path, THINKING)
    option = f"enable_thinking={value}"
    assert rendered(path, option).endswith(end)
    assert rendered(path, option.replace(value, value.title())).endswith(end)
    digests = {chat.of_folder(path, "default", given).digest for given in ((), (option,))}
    assert len(digests) == 2


def test_one_of_several_templates_is_named(tmp_path):
    several = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    assert rendered(folder(tmp_path, several)) == "a"
    assert rendered(tmp_path, name="tool_use") == "b"
    with pytest.raises(UsageError, match="--chat rag: .* there is default and tool_use"):
        rendered(tmp_path, name="rag")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("c")
    (tmp_path / "chat_template.jinja").write_text("d")
    assert (rendered(tmp_path, name="rag"), rendered(tmp_path)) == ("c", "d")


def test_a_template_that_reads_the_clock_is_rendered_each_time(tmp_path, monkeypatch):
    path = folder(tmp_path, "{{ strftime_now('%Y') }}{{ {'a': '<ü>'} | tojson }}")
    year = datetime.now().strftime("%Y")
    assert rendered(path) == year + '{"a": "<ü>"}'
    monkeypatch.setattr(chat.user_files, "Program", None)
    with pytest.raises(TypeError):
        rendered(path)


def test_a_template_that_reads_the_clock_is_told(chat_model, tmp_path):
    folder(chat_model["weights"], "{{ strftime_now('%d') }}")
    asked = request(tmp_path, **chat_model, chat="default")
    assert any("a run of another day is another cell" in reason for reason in asked.reasons)
    folder(chat_model["weights"], THINKING)
    asked = request(tmp_path, **chat_model, chat="default")
    assert not asked.chat.dated


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('no system role') }}", r"file:1: .*TemplateError: no system role\)"),
        ("{{ ''.__class__.__mro__ }}", "file:1: .*SecurityError"),
        ("{% if %}", "file:1: .*TemplateSyntaxError"),
        ("{% include '/etc/passwd' %}", "file:1: .*no loader for this environment"),
        ("{{ 'a' * 10 ** 11 }}", "file:1: .*MemoryError"),
        ("{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}", "file:1: .*RecursionError"),
        (None, "--chat: neither chat_template.jinja nor a chat_template in tokenizer_config.json"),
        (3, "--chat: the chat template of .* cannot be read"),
    ],
)
def test_a_template_that_fails_is_one_sentence(tmp_path, template, words):
    with pytest.raises(UsageError, match=words) as error:
        rendered(folder(tmp_path, template))
    assert "\n" not in str(error.value)


ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize("template", [ENDLESS, "{{ 9 ** (9 ** 9) }}"])
def test_a_template_that_does_not_end_is_stopped(tmp_path, monkeypatch, template):
    monkeypatch.setattr(chat.user_files, "SECONDS", 5)
    with pytest.raises(UsageError, match=r"was stopped \(it takes too much time or memory\)"):
        rendered(folder(tmp_path, template))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["enable_thinkin=1"], "no such variable; it has bos_token, enable_thinking"),
        (["messages=1"], "no such variable"),
        (["enable_thinking"], "a value is needed, enable_thinking=…"),
        (["enable_thinking=1", "enable_thinking=2"], "is given twice"),
    ],
)
def test_a_wrong_variable_is_refused(tmp_path, options, words):
    with pytest.raises(UsageError, match=f"--chat-option .*{words}"):
        rendered(folder(tmp_path, THINKING), *options)


@pytest.fixture
def chat_model(made, tmp_path):
    """Flags of a cell of a chat model."""
    path = folder(made("llama"), THINKING)
    bpe(300).save(str(path / "tokenizer.json"))
    (tmp_path / "prompts.txt").write_text("hi")
    return {"model": "llama", "weights": path, "dataset": tmp_path / "prompts.txt"}


def test_a_template_brings_its_own_marks_and_is_part_of_the_cell(chat_model, tmp_path):
    asked = request(tmp_path, **chat_model, chat="default")
    ids = asked.given.arrays["input_ids"][0].tolist()
    assert ids.count(1) == 1  # the template's <s>; the tokenizer adds none
    assert "an answer has at most 128 tokens, the default for prompts of yours; --new-tokens sets" \
        in " ".join(asked.given.notes)  # fmt: skip
    plain = request(tmp_path, **chat_model)
    assert (plain.cell().chat, asked.cell().chat) == (None, asked.chat.digest[:12])
    assert plain.cell().digest != asked.cell().digest
    thinking = request(tmp_path, **chat_model, chat="default", chat_option=("enable_thinking=1",))
    assert thinking.cell().chat != asked.cell().chat


def test_a_folder_with_a_template_that_is_not_applied_is_told(chat_model, tmp_path):
    note = f"{chat_model['weights']} has a chat template, which is not applied: --chat applies it"
    plain = request(tmp_path, **chat_model)
    assert note in plain.reasons
    assert note not in request(tmp_path, **chat_model, chat="default").reasons
    assert note not in request(tmp_path, **{**chat_model, "dataset": None}).reasons
    assert not chat.has_template(folder(tmp_path, 3))


def test_a_sweep_and_its_commands_take_the_flags_of_a_chat(chat_model, tmp_path):
    parser = Parser("sweep")
    options.add_list_flags(parser)
    words = ["--chat", "--chat-option", "enable_thinking=false", "--field", "prompt"]
    flags = vars(parser.parse_args(words))
    assert (flags["chat"], flags["chat_option"]) == ("default", ["enable_thinking=false"])
    (tmp_path / "rows.csv").write_text("prompt\nhi\n")
    grid = {"sut": ["mock"], "scenario": ["Offline"], "model": ["llama"]}
    grid |= {"weights": [str(chat_model["weights"])], "dataset": [str(tmp_path / "rows.csv")]}
    grid |= {"chat": [flags["chat"]], "chat_option": flags["chat_option"]}
    grid |= {"field": [flags["field"]]}
    (series,) = cells.make([grid], WHERE, control=False)
    assert series.request.chat.variables["enable_thinking"] is False
    assert "--chat default --chat-option enable_thinking=false" in series.command
    assert options.parse(shlex.split(series.command)[1:]).chat == "default"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"chat_option": ("a=1",)}, "--chat-option a=1: .*give --chat too"),
        ({"chat": "default", "dataset": None}, "--chat: .*give both"),
        ({"chat": __file__, "dataset": None}, "--chat .*: was read as the name of a template"),
        ({"chat": "default", "weights": None}, "--chat: .*give both"),
        ({"chat": "default", "model": "bert", "weights": None}, "bert does not: leave it out"),
        ({"chat": "default", "scenario": "Fit"}, "llama does not in Fit: leave it out"),
        ({"field": "x", "dataset": None}, "--field x: names the prompts in a file of rows"),
    ],
)
def test_flags_of_a_chat_that_do_not_fit_are_refused(chat_model, tmp_path, changes, words):
    with pytest.raises(UsageError, match=words):
        request(tmp_path, **{**chat_model, **changes, "duration": None})


def test_a_template_needs_a_tokenizer_that_reads_its_marks(chat_model, tmp_path):
    (chat_model["weights"] / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match="--chat: only a tokenizer.json reads the marks"):
        request(tmp_path, **chat_model, chat="default")
