# SPDX-License-Identifier: Apache-2.0
"""Tests of functions that workers cannot import: of __main__, lambdas, closures."""

import os
import pickle
import sys
import tempfile
import textwrap

import support

SCRIPT = """
    import os, sys
    import farcall
    import beside

    print("the program runs", flush=True)
    factor = 3

    class Box:
        def __init__(self, value): self.value = value

    def scale(value): return value * factor
    def boxed(box): return Box(box.value + 1)

    with farcall.Executor(2) as executor:
        print(executor.submit(scale, 14).result(), executor.function(scale)(5), *executor.map(scale, range(3)))
        box = executor.submit(boxed, Box(1)).result()
        print(type(box) is Box, box.value)
        print(executor.submit(lambda: factor + 1).result(), executor.submit(beside.double, 4).result())
        print([executor.submit(lambda x: x + i, 10).result() for i in range(5)])
    """


class MainFunctions(support.TestCase):
    """Functions of programs."""

    def run_script(self, text):
        """Runs a script beside a module, and returns its status, output and errors."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "script.py"), "w", encoding="utf-8") as script:
                script.write(textwrap.dedent(text))
            with open(os.path.join(folder, "beside.py"), "w", encoding="utf-8") as module:
                module.write("def double(value): return 2 * value\n")
            return support.run([sys.executable, os.path.join(folder, "script.py")])

    @support.needs_cloudpickle
    def test_program_runs_once_and_its_functions_work(self):
        status, out, errors = self.run_script(SCRIPT)
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(out, "the program runs\n42 15 0 3 6\nTrue 2\n4 8\n[10, 11, 12, 13, 14]\n")

    def test_without_cloudpickle_the_error_says_what_to_do(self):
        status, out, errors = self.run_script("""
            import sys
            sys.modules["cloudpickle"] = None
            import farcall
            def own(): return 1
            with farcall.Executor(1) as executor:
                for function in (own, lambda: 1):
                    future = executor.submit(function)
                    error = future.exception()
                    print(future.done(), "pip install cloudpickle" in f"{error} {getattr(error, '__notes__', '')}")
                print(executor.submit(str, "__main__").result())
                print(str(executor.submit(len, [own]).exception()).partition(" to a ")[0])
        """)
        self.assertEqual((status, out, errors),
                         (0, "True True\nTrue True\n__main__\ncannot send own of the main program\n", ""))

    @support.needs_cloudpickle
    def test_tracebacks_have_lines_of_the_program(self):
        status, out, errors = self.run_script("""
            import farcall
            def divide(value): return 1 // value  # a comment
            with farcall.Executor(1) as executor:
                for _ in range(3):
                    print(str(executor.submit(divide, 0).exception().__cause__).count("return 1 // value  # a comment"))
        """)
        self.assertEqual((status, out, errors), (0, "1\n" * 3, ""))

    @support.needs_cloudpickle
    def test_program_from_standard_input_works(self):
        status, out, errors = support.run_program("""
            import farcall
            def twice(value): return 2 * value
            with farcall.Executor(1) as executor:
                print(executor.submit(twice, 21).result())
        """)
        self.assertEqual((status, out, errors), (0, "42\n", ""))

    @support.needs_cloudpickle
    def test_closures_have_their_present_values(self):
        executor = self.executor(1)
        count = 0

        def read():
            return count

        for count in range(5):
            self.assertEqual(executor.submit(read).result(), count)

    @support.needs_cloudpickle
    def test_frozen_function_keeps_its_values(self):
        count = 1
        frozen = self.executor(1).function(lambda: count)
        count = 2
        self.assertEqual((frozen(), count), (1, 2))

    @support.needs_cloudpickle
    def test_tasks_may_call_closures(self):
        executor = self.executor(1)

        def depth(n):
            return 0 if n == 0 else 1 + executor.submit(depth, n - 1).result()

        self.assertEqual(executor.submit(depth, 5).result(), 5)

    def test_executor_cannot_be_sent_elsewhere(self):
        data = pickle.dumps(self.executor(1))
        with self.assertRaisesRegex(RuntimeError, "only to its own workers"):
            pickle.loads(data)


if __name__ == "__main__":
    support.main()
