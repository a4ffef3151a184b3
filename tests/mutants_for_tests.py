"""Does a test notice? Change the code that decides right and wrong, one place at a time, and run its tests.

mutmut makes the mutants: another operator, constant, argument or string. Its own runner starts pytest anew for each of
them; here all live in one process, which takes a fraction of the time. First every test tells which functions it calls.
A mutant then meets the tests of its function, quickest first, until one fails. Hypothesis draws the same examples in
every run, so that a score can be repeated.

    python tests/mutants_for_tests.py --report build/mutants.md
    python tests/mutants_for_tests.py --only '*metrics*' --share 0.2 --seed 1
"""

import argparse
import difflib
import fnmatch
import importlib
import importlib.machinery
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings
from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state
from mutmut.utils.format_utils import mangled_name_from_mutant_name

HERE = Path(__file__).parent
MODULES = (
    "robustmat.dataset.truth",
    "robustmat.evaluation.bootstrap",
    "robustmat.evaluation.metrics",
    "robustmat.fitting.decision",
    "robustmat.matching.assign",
    "robustmat.matching.decision",
    "robustmat.models.bounds",
)
TESTS = (
    "test_bootstrap.py",
    "test_bounds.py",
    "test_decision.py",
    "test_metrics.py",
    "test_pairs.py",
    "test_truth.py",
    "test_contraction.py::test_convolution_bound_is_never_below_the_operator_norm",
    "test_contraction.py::test_convolution_bound_is_tight_within_a_quarter",
    "test_contraction.py::test_matrix_bound_is_the_spectral_norm",
    "test_certificate.py::test_diagonal_bound_is_above_the_operator",
    "test_evaluate.py::test_candidates_are_all_of_them_and_not_three_to_one",
    "test_evaluate.py::test_a_fitted_decision_separates_what_can_be_separated",
    "test_evaluate.py::test_every_world_counts_alike_for_a_threshold_however_many_pairs_it_has",
    "test_matching.py::test_matches_are_one_to_one_mutual_and_above_the_threshold",
    "test_matching.py::test_no_mutual_best_pair_is_left_out",
    "test_matching.py::test_a_pair_that_is_not_allowed_is_no_rival_either",
    "test_matching.py::test_without_calibration_the_score_stands_for_the_probability",
)
# Seconds each, hundreds of times: without them the score can only be lower.
LEFT_OUT = (
    "test_bootstrap.py::test_interval_covers_the_truth_about_as_often_as_it_says",
    "test_bootstrap.py::test_pairing_finds_a_small_steady_gain_that_separate_intervals_hide",
    "test_pairs.py::test_pairs_keep_every_promise_of_the_protocol",
    "test_pairs.py::test_every_object_gets_its_share_of_the_unmatched_pairs",
    "test_pairs.py::test_drives_of_one_world_share_objects_and_frame_pairs",
    "test_pairs.py::test_frames_of_other_worlds_are_never_paired",
)
NOTICED, SURVIVED, NOT_REACHED = "noticed", "survived", "not reached"
MUTATED: dict[str, MutatedFile] = {}  # by module, filled when it is imported


class MutantLoader(importlib.machinery.SourceFileLoader):
    """Loads a module with all of its mutants beside the original functions."""

    def get_code(self, fullname: str) -> CodeType:
        return compile(MUTATED[fullname].code, self.path, "exec")


class MutantFinder:
    """Hands the modules under test to `MutantLoader`, wherever the package is installed."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _: object = None) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name in MODULES else None
        if spec is None or spec.origin is None:
            return None
        source = Path(spec.origin).read_text(encoding="utf-8")
        MUTATED[name] = mutate_file_contents(spec.origin, source)
        spec.loader = MutantLoader(name, spec.origin)
        return spec


class Judge:
    """A pytest plugin: instead of the tests once, the tests of each mutant."""

    def __init__(self, only: str, share: float, seed: int) -> None:
        self.only, self.share, self.seed = only, share, seed
        self.verdicts: dict[str, str] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        calls: dict[str, list[pytest.Item]] = defaultdict(list)
        took: dict[pytest.Item, float] = {}
        set_mutant_under_test("stats")
        for item in session.items:
            began = time.process_time()
            if not passes(item, 600):
                raise pytest.UsageError(f"{item.nodeid} fails without any mutant")
            took[item] = time.process_time() - began
            for function in state()._stats:
                calls[function].append(item)
            state()._stats.clear()
        chosen = self.draw()
        began = time.process_time()
        for number, name in enumerate(chosen):
            tests = sorted(calls[mangled_name_from_mutant_name(name)], key=lambda item: took[item])
            set_mutant_under_test(name)
            alive = all(passes(item, 10 + 10 * took[item]) for item in tests)
            self.verdicts[name] = NOT_REACHED if not tests else SURVIVED if alive else NOTICED
            spent = time.process_time() - began
            print(f"{number + 1}/{len(chosen)} {spent:.0f} s {self.verdicts[name]}: {name}", flush=True)
        set_mutant_under_test("")
        return True

    def draw(self) -> list[str]:
        names = [f"{module}.{name}" for module in MODULES for name in MUTATED[module].mutant_names]
        names = [name for name in names if fnmatch.fnmatch(name, self.only)]
        return random.Random(self.seed).sample(names, round(self.share * len(names)))

    def page(self, seconds: float) -> str:
        count = Counter((name.rpartition(".")[0], verdict) for name, verdict in self.verdicts.items())
        total = Counter(self.verdicts.values())
        share = f"a share of {self.share:g} drawn with seed {self.seed}, " if self.share < 1 else ""
        lines = [
            f"{total[NOTICED]} of {total.total()} mutants noticed ({total[NOTICED] / max(total.total(), 1):.1%}), "
            f"{share}{seconds / 60:.1f} minutes of processor time.",
            "",
            f"| module | mutants | {NOTICED} | {SURVIVED} | {NOT_REACHED} |",
            "|---|---|---|---|---|",
        ]
        for module in MODULES:
            each = [count[module, verdict] for verdict in (NOTICED, SURVIVED, NOT_REACHED)]
            lines.append(f"| `{module}` | {sum(each)} | {' | '.join(map(str, each))} |")
        for name, verdict in sorted(self.verdicts.items()):
            if verdict != NOTICED:
                lines.append(f"\n{verdict}: {name}\n\n```diff\n{change_of(name)}\n```")
        return "\n".join(lines) + "\n"


def change_of(name: str) -> str:
    """The lines of a function that a mutant changes, before and after."""
    module, _, function = name.rpartition(".")
    mutated = MUTATED[module]
    lines = mutated.code.splitlines()
    both = []
    for one in (f"{function.rpartition('_')[0]}_orig", function):
        span = mutated.line_span_by_function_name[one]
        both.append([line.replace(one, "function") for line in lines[span.start - 1 : span.end]])
    changed = difflib.unified_diff(*both, lineterm="", n=0)
    return "\n".join(line for line in changed if not line.startswith(("---", "+++", "@@")))


def passes(item: pytest.Item, limit: float) -> bool:
    """Whether a test passes within so many seconds of processor time."""
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def give_up(_: int, __: FrameType | None) -> None:
    raise TimeoutError("the mutant takes too long")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="a pattern of mutants' names")
    parser.add_argument("--share", type=float, default=1.0, help="of the mutants, drawn with --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    # Failing examples need not become small.
    settings.register_profile("mutants", derandomize=True, database=None, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("mutants")
    signal.signal(signal.SIGVTALRM, give_up)
    sys.meta_path.insert(0, MutantFinder)
    for module in MODULES:
        importlib.import_module(module)
    judge = Judge(given.only, given.share, given.seed)
    words = ["-m", "not slow and not browser", "-p", "no:cacheprovider", "--capture=no", f"--rootdir={HERE}"]
    left_out = [f"--deselect={test}" for test in LEFT_OUT]
    ended = pytest.main([*words, *left_out, *(str(HERE / test) for test in TESTS)], plugins=[judge])
    if not judge.verdicts:
        return int(ended) or 1
    page = judge.page(time.process_time())
    print(page)
    if given.report:
        given.report.parent.mkdir(parents=True, exist_ok=True)
        given.report.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
