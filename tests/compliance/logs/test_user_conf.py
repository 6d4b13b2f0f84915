"""user.conf is read as the installed LoadGen reads it."""

import json
import math
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compliance import rules
from compliance.logs import user_conf
from compliance.logs.user_conf import parse, read, trap

RULES = rules.load()
MODEL = "m.1"
SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")

# LoadGen.

READ_BY_LOADGEN = """
import json, sys
import mlperf_loadgen as lg
def values(settings):
    return {a: getattr(settings, a) for a in sys.argv[3:]} | {"mode": settings.mode.name}
found = [values(lg.TestSettings())]
for file, scenario in json.load(open(sys.argv[1])):
    settings = lg.TestSettings()
    code = settings.FromConfig(file, sys.argv[2], scenario, 2)
    found.append(values(settings) | {"code": code})
print(json.dumps(found))
"""
"""The settings of each file, without LoadGen's own configuration. No test is started, so a rate of
0 or 2^64 queries harm nobody.
"""
SAME_NAME = """
    min_query_count max_query_count performance_sample_count_override accuracy_sample_count_override
    sample_concatenate_permutation performance_issue_unique performance_issue_same
    performance_issue_same_index print_timestamps accuracy_log_rng_seed accuracy_log_sampling_target
    use_token_latencies infer_token_latencies
"""
ATTRIBUTES = {key: ("", key) for key in SAME_NAME.split()} | {
    "min_duration_ms": ("", "min_duration"),
    "max_duration_ms": ("", "max_duration"),
    "qsl_rng_seed": ("", ""),
    "single_stream_expected_latency_ns": ("SingleStream", "target_latency"),
    "single_stream_target_latency_percentile": ("SingleStream", "target_latency_percentile"),
    "multi_stream_expected_latency_ns": ("MultiStream", "target_latency"),
    "multi_stream_target_latency_percentile": ("MultiStream", "target_latency_percentile"),
    "multi_stream_samples_per_query": ("MultiStream", "samples_per_query"),
    "server_target_qps": ("Server", "target_qps"),
    "server_target_latency_ns": ("Server", "target_latency"),
    "server_target_latency_percentile": ("Server", "target_latency_percentile"),
    "server_coalesce_queries": ("Server", "coalesce_queries"),
    "server_max_async_queries": ("Server", "max_async_queries"),
    "offline_expected_qps": ("Offline", "target_qps"),
    "ttft_latency": ("Server", "ttft_latency"),
    "tpot_latency": ("Server", "tpot_latency"),
}
"""LoadGen's attribute → (the scenario whose lines it reads, or that of the test, key)."""
MODES = ("SubmissionRun", "AccuracyOnly", "PerformanceOnly", "FindPeakPerformance")

# The generated files.

FILES = 200
WORDS = """
    0 1 2 7 99 100 600000 1e2 1E3 200.5 .5 5. +.5e+1 0.0 -0 1e-400 0100 00 089 08.5 0x64 0X1F
    0x1.8p3 0x.8 -1 -2.5 +7 -0x1 inf -inf NaN nan(1) INFINITY 1e999 -1e999 0x1p99999
    4294967295 4294967296 2147483648 9007199254740993 30000000000000 18446744073709551615 18446744073709551616
    -18446744073709551616 99999999999999999999 -99999999999999999999 0xFFFFFFFFFFFFFFFFFF
"""
NO_NUMBERS = """
    0x 0x. 1_000 1,000 １２ 1e e5 --1 +-1 0b101 0o17 1f 1.0.0 0x1p nan( infin true five = # #5 1;
    1\x00
"""
LINES = [
    *["{k} = {v}"] * 40,
    *("{k} = {w} {v}", "\t{k}\v=\f{v}\r", "  {k}  =  {v}  ", "{k}={v}", "{k} =", "{k}"),
    *("{k} # {v}", "# {k} = {v}", "#{k} = {v}", "#", "= = {v}", ""),
]
REFUSED = [
    *("{k} = {n}", "{k} = {v} {n}", "{k} = {v} # {w}", "{k} ={v}", "{k}= {v}", "{k} {v}"),
    *("{k} == {v}", "{k}\u00a0= {v}", "#{k} {v}", "\ufeff# {k}"),
]


def generated(seed):
    """(the text of a user.conf, a scenario)."""
    draw = random.Random(seed)
    keys = [*RULES.user_conf, "qsl_rng_seed", "min_querycount"]
    lines = []
    for _ in range(draw.randint(1, 30)):
        model = draw.choice([MODEL, MODEL, "*", "m", ""])
        scenario = draw.choice([*SCENARIOS, *SCENARIOS, "*", "*", "server"])
        words = {
            "k": f"{model}.{scenario}.{draw.choice(keys)}",
            "v": draw.choice(
                [*WORDS.split(), repr(draw.uniform(0, 1e6)), str(draw.getrandbits(40))]
            ),
            "w": draw.choice(WORDS.split()),
            "n": draw.choice(NO_NUMBERS.split()),
        }
        lines.append(draw.choice(LINES).format(**words))
    if seed % 2:
        lines.append("*.*.use_token_latencies = 1")
    if seed % 4 == 0:
        lines.insert(draw.randint(0, len(lines)), draw.choice(REFUSED).format(**words))
    return draw.choice(["\n", "\r\n"]).join(lines), draw.choice(SCENARIOS)


def taken(text, scenario, default):
    """What this project says that LoadGen takes."""
    conf = parse(text)
    found = {**default, "code": -22 if conf.refused else 0}
    for attribute, (section, key) in ATTRIBUTES.items():
        entry = conf.look_up(MODEL, section or scenario, key)
        if entry is not None:
            found[attribute] = read(section or scenario, key, entry[1])
    if not found["use_token_latencies"]:  # LoadGen looks the limits of tokens up only with them
        found |= {name: default[name] for name in ("ttft_latency", "tpot_latency")}
    entry = conf.look_up(MODEL, scenario, "mode")
    number = int(read(scenario, "mode", entry[1])) if entry else len(MODES)
    return found | ({"mode": MODES[number]} if number < len(MODES) else {})


def same(a, b):
    return bool(a == b or (a != a and b != b))


def test_loadgen_takes_what_we_say_it_takes(tmp_path):
    files = []
    for seed in range(FILES):
        text, scenario = generated(seed)
        path = tmp_path / f"{seed}.conf"
        path.write_bytes(text.encode())
        files.append((str(path), scenario))
    (tmp_path / "files.json").write_text(json.dumps(files))
    command = [sys.executable, "-c", READ_BY_LOADGEN, str(tmp_path / "files.json"), MODEL]
    done = subprocess.run(
        [*command, *ATTRIBUTES], check=True, capture_output=True, text=True, timeout=60
    )
    default, *read_by_loadgen = json.loads(done.stdout)
    changed = set()
    for seed, theirs in enumerate(read_by_loadgen):
        ours = taken(*generated(seed), default)
        other = {k: (theirs[k], ours[k]) for k in theirs if not same(theirs[k], ours[k])}
        assert not other, (seed, generated(seed)[0], other)
        changed |= {key for key in default if theirs[key] != default[key]}
    assert [each["code"] for each in read_by_loadgen].count(-22) >= FILES // 4
    assert changed == set(default) - {"qsl_rng_seed"}


def test_a_line_with_the_scenario_comes_before_one_with_the_model():
    conf = parse(
        "*.*.a = 1\nm.*.a = 2\n*.S.a = 3\nm.S.a = 4\n# the nearest\n"
        "*.*.b = 5\nm.*.b = 6\n*.S.b = 7\n"
    )
    assert conf.look_up("m", "S", "a") == ("m.S.a", "4")
    assert conf.look_up("m", "S", "b") == ("*.S.b", "7")
    assert conf.look_up("m", "T", "a") == ("m.*.a", "2")
    assert conf.look_up("n", "T", "a") == ("*.*.a", "1")
    assert conf.look_up("m", "S", "c") is None
    assert parse("llama3.1-8b.S.a = 1").look_up("llama3.1-8b", "S", "a")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("m.S.a =1", "the second word is not `=`"),
        ("m.S.a 1", "the second word is not `=`"),
        ("m.S.a = x", "'x' is no number"),
        ("m.S.a = １２", "'１２' is no number"),
        ("m.S.a = 1_000", "'1_000' is no number"),
        ("m.S.a = 1 # a comment", "a comment follows the `=`"),
        ("#a comment", "no blank follows the `#`"),
        ("\ufeff# a comment", "a byte order mark"),
    ],
)
def test_a_line_for_which_loadgen_refuses_the_file_is_named_with_its_fault(line, words):
    conf = parse(f"m.S.b = 1\n{line}\n")
    (fault,) = conf.refused
    assert words in fault.text and "return code -22" in fault.text
    assert fault.line == 2 and conf.look_up("m", "S", "b") is None


@pytest.mark.parametrize("line", ["m.S.a=1", "m.S.a =", "\ufeffm.S.a = 1"])
def test_a_line_that_has_no_effect_is_named(line):
    (fault,) = parse(line).ignored
    assert "LoadGen ignores the line" in fault.text and not parse(line).values


@pytest.mark.parametrize("line", ["", "# m.S.a = 1", "#m.S.a = 1", "#", "m.S.a # later", "\r"])
def test_a_comment_is_no_setting(line):
    assert parse(line) == parse("")


@pytest.mark.parametrize(
    ("scenario", "key", "word", "sentence"),
    [
        ("SingleStream", "min_query_count", "1e2", "read as 1 by LoadGen: an integer ends at the"),
        ("Server", "target_latency", "200.5", "is read as 200 by LoadGen: an integer ends"),
        ("Server", "min_query_count", "0100", "is read as 64 by LoadGen: a leading 0 means octal"),
        ("Server", "min_query_count", "089", "is read as 0 by LoadGen: a leading 0 means octal"),
        ("Server", "min_query_count", "-1", "is read as 18446744073709551615 by LoadGen: a neg"),
        ("Server", "min_duration", "-1", "1615 by LoadGen, and is -1 ms in effect: a negative"),
        ("Server", "target_latency", "-1", "1615 by LoadGen, and is -1 ms in effect: a negative"),
        ("Server", "target_latency", "9" * 20, "and is -1 ms in effect: it does not fit"),
        (
            "Server",
            "target_latency",
            "18446744073709",
            "-0.551616 ms by LoadGen: in nanoseconds it",
        ),
        ("Server", "target_latency", "18446744073710", "does not fit into 63 bits"),
        ("Server", "min_duration", "1e20", "is read as 1 by LoadGen: an integer ends"),
        ("Server", "min_duration", "99999999999999999999", "does not fit into 64 bits"),
        ("Server", "ttft_latency", "30000000000000", "does not fit into 64 bits"),
        ("Server", "max_async_queries", "4294967296", "does not fit into 32 bits"),
        ("Server", "sample_concatenate_permutation", "2", "is read as 0 by LoadGen: only 1 turns"),
        ("Server", "coalesce_queries", "0.5", "is read as 0 by LoadGen: an integer ends"),
        ("Offline", "target_qps", "inf", "is read as inf by LoadGen: the number must be finite"),
        ("Offline", "target_qps", "nan", "is read as nan by LoadGen: the number must be finite"),
    ],
)
def test_a_number_that_loadgen_reads_otherwise_is_named_with_the_reason(
    scenario, key, word, sentence
):
    assert sentence in trap(scenario, key, word)


@pytest.mark.parametrize(
    ("scenario", "key", "word"),
    [
        ("Server", "min_query_count", "0x64"),
        ("Server", "min_duration", "600000.0"),
        ("Server", "accuracy_log_rng_seed", "720381539243781796"),
        ("Server", "coalesce_queries", "2"),
        ("Server", "target_qps", "1e2"),
        ("SingleStream", "target_latency", "0.5"),
    ],
)
def test_a_number_that_loadgen_reads_as_people_do_is_no_trap(scenario, key, word):
    assert not trap(scenario, key, word)


def test_a_number_of_many_digits_is_read():
    assert user_conf.as_whole("7" * 10_000) == 2**64 - 1
    assert user_conf.as_whole("0" * 10_000 + "7") == 7
    assert user_conf.as_double("0x" + "7" * 10_000) == math.inf


@given(st.text(max_size=200))
def test_any_text_is_a_user_conf_of_some_kind(text):
    conf = parse(text)
    entry = conf.look_up("m", "S", "a")
    assert entry is None or read("S", "a", entry[1]) >= 0
    found = len(conf.values) + len(conf.refused) + len(conf.ignored)
    assert found <= len(text.split("\n"))
