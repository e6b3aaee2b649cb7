# SPDX-License-Identifier: Apache-2.0
"""Tests of what `import farcall` costs, and of the names that are imported later."""

import os
import statistics
import subprocess
import sys

import farcall
import support

# Modules that the package must not import, because they take milliseconds or may be missing.
SLOW = ["asyncio", "numpy", "typing", "inspect", "cloudpickle"]


def run_bare(program):
    """Returns the output of a program in an interpreter that has imported nothing of site-packages."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(farcall.__file__))}
    return subprocess.run([sys.executable, "-P", "-S", "-c", program], env=environment, text=True, check=True,
                          stdout=subprocess.PIPE, timeout=support.GUARD_SECONDS).stdout.strip()


class Import(support.TestCase):
    """The package as programs import it."""

    def test_import_loads_no_slow_modules(self):
        program = f"import sys, farcall; print([name for name in {SLOW} if name in sys.modules])"
        self.assertEqual(run_bare(program), "[]")

    def test_an_executor_loads_no_slow_modules(self):
        program = f"""if True:
            import sys, farcall
            with farcall.Executor(1) as executor:
                executor.submit(abs, -1).result()
                list(executor.map(abs, range(10)))
            print([name for name in {SLOW} if name in sys.modules])
            """
        self.assertEqual(run_bare(program), "[]")

    def test_import_takes_3_ms_more_than_concurrent_futures(self):
        # Time of a processor, which other processes do not change much.
        program = """if True:
            import concurrent.futures, time
            begin = time.process_time()
            import farcall
            print(time.process_time() - begin)
            """
        self.assertLess(statistics.median(float(run_bare(program)) for _ in range(21)), 0.003)

    def test_all_names_are_there(self):
        for name in [*farcall.__all__, "__version__"]:
            with self.subTest(name):
                self.assertIn(name, dir(farcall))
                self.assertIsNotNone(getattr(farcall, name))
        self.assertFalse(hasattr(farcall, "no_such_name"))

    def test_later_names_are_imported_once(self):
        program = """if True:
            import farcall
            before = "Executor" in vars(farcall)
            from farcall import Executor
            print(before, vars(farcall)["Executor"] is Executor is farcall.Executor)
            """
        self.assertEqual(run_bare(program), "False True")


if __name__ == "__main__":
    support.main()
