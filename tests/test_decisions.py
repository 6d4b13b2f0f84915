"""No code of `harness` and `scenarios` decides by reading a message. Messages are for people, and a
new wording must not change what a program does: a decision is made by a code, a type or a number.
"""

import ast

import pytest

from harness.execution.environments import ROOT

MESSAGES = {
    *(
        "disturbances",
        "how",
        "loadgen",
        "message",
        "messages",
        "note",
        "notes",
        "obstacle",
        "output",
    ),
    *("headline", "preface", "reason", "reasons", "said", "sentence", "sentences", "stderr"),
    *("stdout", "unranked", "verdict", "warnings", "why", "words"),
}
"""Names of variables and attributes that hold sentences."""
PATTERNS = {"findall", "finditer", "fullmatch", "match", "search", "split", "sub"}
PARTS = {
    *("count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix"),
    *("rpartition", "rsplit", "split", "startswith"),
}
UNCHANGED = {"casefold", "lower", "lstrip", "replace", "rstrip", "strip"}
"""Methods whose result is still a message."""
ALLOWED = {
    "harness/cluster/ray_tasks.py:ended": "Ray's exceptions, of which the first sentence is shown",
    "harness/commands/bundle.py:_sources": "the names of files that git prints",
    "harness/execution/bundle.py:_download": "the names of wheels that pip prints",
    "harness/execution/bundle.py:_pip": "pip has one exit code for all its errors",
    "harness/execution/environments.py:check_done": "uv and pip have one exit code for all errors",
    "harness/execution/pins.py:_uv": "uv has one exit code for all its errors",
    "harness/execution/user_files.py:end": "the last line of a library's error, which is shown",
    "harness/request/flags.py:error": "argparse gives only its message to Parser.error",
    "scenarios/worker/failures.py:outcome_of": "frameworks have no common error for lack of memory",
    "scenarios/worker/replicas/dispatcher.py:_lost": "the words of srun or Ray for lack of memory",
    "scenarios/worker/replicas/placement.py:failed": "the output of srun or of Ray",
}
"""File and function → why it may read a text."""


def is_message(node):
    """Whether an expression is a message: a name or an attribute of MESSAGES, the text of an
    exception, or a text that contains one.
    """
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in MESSAGES
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id="e" | "error" | "fault")]):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in UNCHANGED:
            return is_message(value)
        case ast.Call(func=ast.Attribute(attr="join"), args=[value]):
            return is_message(value)
        case ast.BoolOp(values=values) | ast.JoinedStr(values=values):
            return any(map(is_message, values))
        case ast.FormattedValue(value=value):
            return is_message(value) or (isinstance(value, ast.Name) and value.id in ("e", "error"))
    return False


def reads(node):
    """Whether an expression looks into a message."""
    match node:
        case ast.Compare(ops=ops, comparators=comparators):
            pairs = zip(ops, comparators, strict=True)
            return any(
                isinstance(op, ast.In | ast.NotIn) and is_message(container)
                for op, container in pairs
            )
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[_, *texts]):
            return name in PATTERNS and any(map(is_message, texts))
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=arguments):
            is_part = name in PARTS and bool(arguments) and is_message(value)
            return is_part or (name in PATTERNS and any(map(is_message, arguments)))
    return False


def decisions(code):
    """(the innermost function, the expression) of everything that looks into a message."""

    def below(node, function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if reads(node):
            yield function, ast.unparse(node)
        for child in ast.iter_child_nodes(node):
            yield from below(child, function)

    yield from below(ast.parse(code), "")


def test_no_code_decides_by_reading_a_message():
    found = {}
    for folder in ("harness", "scenarios"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for function, expression in decisions(path.read_text(encoding="utf-8")):
                found[f"{path.relative_to(ROOT)}:{function}"] = expression
    new = {place: expression for place, expression in found.items() if place not in ALLOWED}
    assert new == {}, "decide by a code, a type or a number, or say in ALLOWED whose text it is"
    assert set(ALLOWED) <= set(found), "allowed, and not there any more"


@pytest.mark.parametrize(
    "code",
    [
        'if "early stopping" in (result.loadgen or ""): pass',
        'found = re.search("needs (.*) GB", outcome.reason)',
        "found = _NEEDS.fullmatch(reason)",
        'name = each.reason.removeprefix("no reference: ")',
        'if "memory" in str(e): pass',
        "if reason not in run.disturbances: pass",
        'if "; " in f"{a}: {reason}".lower(): pass',
    ],
)
def test_each_of_these_is_found(code):
    assert len(list(decisions(code))) == 1


@pytest.mark.parametrize(
    "code",
    [
        'text = f"{status}: {reason}"',
        "if result.cause in BY_CLOCK: pass",
        'words = " ".join(reasons).split()',
        'if "status" in header: pass',
    ],
)
def test_none_of_these_is_found(code):
    assert list(decisions(code)) == []
