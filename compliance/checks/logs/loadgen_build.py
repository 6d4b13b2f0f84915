"""The checks of the LoadGen that measured: its version, its commit, the hashes of its files, and
whether both tests used the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from compliance.checks.entries import entry_fault
from compliance.findings.check import differs, fail_or_manual, quoted, shorten
from compliance.rules import Rules, load, rounds, version_number
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Checks, Fault, Faults

# LoadGen logs it for the commit and the status if it was built outside a git tree.
_NO_GIT = "NA"
# setup.py writes these files, so a build from a checkout may lack them.
_GENERATED = ("/mlperf_conf.h",)
_TAGGED = (
    "commit and files, which differ from the wheel's, are those of a tag of mlcommons/inference"
)


def checks(subject: Subject) -> Checks:
    """The checks of each test's LoadGen, and the check that both tests used the same."""
    both = fail_or_manual(
        "loadgen-of-both-tests",
        *_same_loadgen(subject),
        "the same version and build, SUT and library",
        show="both tests ran the same revision",
        of_a_run=subject.place.run is not None,
    )
    return [*(of_test(test, subject) for test in subject.tests), both]


def of_test(test: LoadGenRun, subject: Subject) -> Check:
    """The check of one test's LoadGen. A run directory must have the wheel's commit and files. A
    bare submission may have those of another tag, which a person has to compare.
    """
    return fail_or_manual(
        f"{test.name}-loadgen",
        _altered(test, subject.rules),
        _other_revision(test, subject.rules),
        f"unmodified {test.detail.get('loadgen_version')}",
        test.file,
        show=_TAGGED,
        of_a_run=subject.place.run is not None,
    )


def _is_between(version: str, rules: Rules) -> bool:
    """Whether a version is later than the releases of all earlier rounds, and earlier than those of
    all later rounds, and no release itself.
    """
    number = version_number(version)
    own = max(map(version_number, rules.versions))
    for round in rounds():
        others = sorted(map(version_number, load(round).versions))
        too_early = others[-1] < own and number < others[-1]
        too_late = others[-1] > own and number > others[0]
        if number in others or too_early or too_late:
            return False
    return bool(number)


def _version(test: LoadGenRun) -> tuple[str, str]:
    """(the version of LoadGen, its commit)."""
    version, _, commit = str(test.detail.get("loadgen_version")).partition(" @ ")
    return version, commit


def _altered(test: LoadGenRun, rules: Rules) -> Faults:
    """Yield a fault for each logged value that no unaltered tagged revision has."""
    detail = test.detail
    version, commit = _version(test)
    if version not in rules.versions and not _is_between(version, rules):
        yield _unreleased(test, rules)
        return
    key = "loadgen_git_status_message"
    outside_git = commit == _NO_GIT and detail.get(key) == _NO_GIT
    if detail.get(key) != "" and not outside_git:
        status = shorten(quoted(detail.get(key)), 120)
        sentence = "built from a changed source tree: {found}"
        yield differs(sentence, status, "''", line=detail.line(key))
    hashes = detail.get("loadgen_file_sha1")
    official = rules.file_sha1.get(version, {})
    if not isinstance(hashes, dict) or not hashes:
        yield "loadgen_file_sha1 is missing or empty"
    elif commit == rules.versions.get(version):
        for path in sorted(official):
            is_source = path.endswith((".cc", ".h")) and path not in _GENERATED
            if path in hashes or is_source:
                yield from _sha1(test, rules, path)


def _unreleased(test: LoadGenRun, rules: Rules) -> Fault:
    versions = " or ".join(rules.versions)
    return entry_fault(test.detail, "loadgen_version", versions, f"{rules.round} requires")


def _other_revision(test: LoadGenRun, rules: Rules) -> Iterator[Fault]:
    """Yield a fault for another commit than the wheel's, and for each different file. At the
    wheel's own commit a build from a checkout has more files. A checkout of mlcommons/inference
    also has versions between the releases.
    """
    version, commit = _version(test)
    hashes = test.detail.get("loadgen_file_sha1")
    if version not in rules.versions:
        if _is_between(version, rules):
            yield _unreleased(test, rules)
        return
    if not isinstance(hashes, dict):
        return
    official = rules.versions[version]
    paths = {*hashes, *rules.file_sha1[version]}
    if commit != official:
        text = f"built from commit {shorten(commit)!r}; the official {version} is {official}"
        yield Fault(text, official, shorten(commit), line=test.detail.line("loadgen_version"))
    else:
        paths = {*hashes} ^ {*rules.file_sha1[version]}
    for path in sorted(paths):
        yield from _sha1(test, rules, path)


def _sha1(test: LoadGenRun, rules: Rules, path: str) -> Iterator[Fault]:
    """Yield a fault if a file has another digest than the release."""
    version = _version(test)[0]
    key = "loadgen_file_sha1"
    official = rules.file_sha1[version].get(path)
    found = test.detail.get(key).get(path)
    if found != official:
        sentence = "{path} has sha1 {found}; the official {version} has {expected}"
        name = shorten(path)
        line = test.detail.line(key)
        yield differs(sentence, found, str(official), line=line, path=name, version=version)


def _same_loadgen(subject: Subject) -> tuple[list[Fault], list[Fault]]:
    """(the faults, the doubts) of two tests' LoadGen. A version may have two tags, and the same
    revision may have been built twice.
    """
    faults = list(_differences(subject, "sut_name", "qsl_name"))
    first, second = (_version(test)[0] for test in subject.tests)
    doubts = list(_differences(subject, "loadgen_build_date_utc"))
    versions = _differences(subject, "loadgen_version")
    (doubts if first == second != "None" else faults).extend(versions)
    return faults, doubts


def _differences(subject: Subject, *keys: str) -> Iterator[Fault]:
    for key in keys:
        first, second = (test.detail.get(key) for test in subject.tests)
        if first is None or first != second:
            sentence = "{key}: performance {expected}, accuracy {found}"
            accuracy = subject.accuracy
            line = accuracy.detail.line(key)
            yield differs(sentence, second, first, file=accuracy.file, line=line, key=key)
