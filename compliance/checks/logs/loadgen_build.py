"""The checks of the LoadGen that measured: its version, its commit, the hashes of its files, and
whether both tests used the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial

from compliance.findings.check import fail_or_manual, judge, quoted, shorten
from compliance.findings.entries import entry_fault
from compliance.rules import Rules, load, rounds, version_number
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault, Faults

_VERSION = re.compile(r"\d{1,4}\.\d{1,4}(\.\d{1,4})?", re.ASCII)
# LoadGen logs it for the commit and the status if it was built outside a git tree.
_NO_GIT = "NA"
# setup.py writes these files, so a build from a checkout may lack them.
_GENERATED = ("/mlperf_conf.h",)


def checks(subject: Subject) -> list[Check]:
    """The checks of each test's LoadGen, and the check that both tests used the same."""
    good = "the same version and build, SUT and library"
    faults, doubts = _same_loadgen(subject)
    both = fail_or_manual(
        partial(judge, "loadgen-of-both-tests", good=good),
        faults,
        doubts,
        "both tests ran the same revision",
        of_a_run=subject.place.run is not None,
    )
    return [*(of_test(test, subject) for test in subject.tests), both]


def of_test(test: LoadGenRun, subject: Subject) -> Check:
    """The check of one test's LoadGen. A run directory must have the wheel's commit and files. A
    bare submission may have those of another tag, which a person has to compare.
    """
    judge_build = partial(
        judge,
        f"{test.name}-loadgen",
        good=f"unmodified {test.detail.get('loadgen_version')}",
        file=subject.detail_file(test),
    )
    tagged = (
        "commit and files, which differ from the wheel's, are those of a tag of mlcommons/inference"
    )
    rules = subject.rules
    return fail_or_manual(
        judge_build,
        _altered(test, rules),
        [*_unreleased(test, rules), *_other_revision(test, rules)],
        tagged,
        of_a_run=subject.place.run is not None,
    )


def _unreleased(test: LoadGenRun, rules: Rules) -> Iterator[Fault]:
    """Yield a fault for a version that is a release of no round. A checkout of mlcommons/inference
    has such versions between the releases.
    """
    version = _version(test)[0]
    if version not in rules.versions and _is_between(version, rules):
        versions = " or ".join(rules.versions)
        yield entry_fault(test.detail, "loadgen_version", versions, f"{rules.round} requires")


def _is_between(version: str, rules: Rules) -> bool:
    """Whether a version is later than the releases of all earlier rounds, and earlier than those of
    all later rounds, and no release itself.
    """
    if not _VERSION.fullmatch(version):
        return False
    number = version_number(version)
    own = max(map(version_number, rules.versions))
    for round in rounds():
        others = [version_number(release) for release in load(round).versions]
        if number in others:
            return False
        if max(others) < own and number < max(others):
            return False
        if max(others) > own and number > min(others):
            return False
    return True


def _version(test: LoadGenRun) -> tuple[str, str]:
    """(the version of LoadGen, its commit)."""
    version, _, commit = str(test.detail.get("loadgen_version")).partition(" @ ")
    return version, commit


def _altered(test: LoadGenRun, rules: Rules) -> Faults:
    """Yield a fault for each logged value that no unaltered tagged revision has."""
    detail = test.detail
    version, commit = _version(test)
    if version not in rules.versions and not _is_between(version, rules):
        versions = " or ".join(rules.versions)
        yield entry_fault(detail, "loadgen_version", versions, f"{rules.round} requires")
        return
    key = "loadgen_git_status_message"
    outside_git = commit == _NO_GIT and detail.get(key) == _NO_GIT
    if detail.get(key) != "" and not outside_git:
        status = shorten(quoted(detail.get(key)), 120)
        text = f"built from a changed source tree: {status}"
        yield Fault(text, "''", status, line=detail.line(key))
    hashes = detail.get("loadgen_file_sha1")
    official = rules.file_sha1.get(version, {})
    if not isinstance(hashes, dict) or not hashes:
        yield "loadgen_file_sha1 is missing or empty"
    elif commit == rules.versions.get(version):
        for path in sorted(official):
            is_source = path.endswith((".cc", ".h")) and path not in _GENERATED
            if (path in hashes or is_source) and hashes.get(path) != official[path]:
                yield _sha1(test, version, path, official)


def _other_revision(test: LoadGenRun, rules: Rules) -> Iterator[Fault]:
    """Yield a fault for another commit than the wheel's, and for each different file. At the
    wheel's own commit a build from a checkout has more files.
    """
    version, commit = _version(test)
    hashes = test.detail.get("loadgen_file_sha1")
    if version not in rules.versions or not isinstance(hashes, dict):
        return
    official = rules.versions[version]
    official_hashes = rules.file_sha1[version]
    if commit != official:
        text = f"built from commit {shorten(commit)!r}; the official {version} is {official}"
        yield Fault(text, official, shorten(commit), line=test.detail.line("loadgen_version"))
        paths = {*hashes, *official_hashes}
    else:
        paths = {*hashes} ^ {*official_hashes}
    for path in sorted(paths):
        if hashes.get(path) != official_hashes.get(path):
            yield _sha1(test, version, path, official_hashes)


def _sha1(test: LoadGenRun, version: str, path: str, digests: Mapping[str, str]) -> Fault:
    mine = shorten(test.detail.get("loadgen_file_sha1").get(path))
    official = str(digests.get(path))
    text = f"{shorten(path)} has sha1 {mine}; the official {version} has {official}"
    return Fault(text, official, mine, line=test.detail.line("loadgen_file_sha1"))


def _same_loadgen(subject: Subject) -> tuple[list[Fault], list[Fault]]:
    """(the faults, the doubts) of two tests' LoadGen. A version may have two tags, and the same
    revision may have been built twice.
    """
    faults = list(_differences(subject, "sut_name", "qsl_name"))
    logged = [str(test.detail.get("loadgen_version")) for test in subject.tests]
    first, second = (version.partition(" @ ")[0] for version in logged)
    doubts = list(_differences(subject, "loadgen_build_date_utc"))
    versions = _differences(subject, "loadgen_version")
    (doubts if first == second != "None" else faults).extend(versions)
    return faults, doubts


def _differences(subject: Subject, *keys: str) -> Iterator[Fault]:
    for key in keys:
        values = [test.detail.get(key) for test in subject.tests]
        if values[0] is None or values[0] != values[1]:
            first, second = map(shorten, values)
            file = subject.detail_file(subject.accuracy)
            text = f"{key}: performance {first}, accuracy {second}"
            yield Fault(text, first, second, file, subject.accuracy.detail.line(key))
