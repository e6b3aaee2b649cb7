# SPDX-License-Identifier: Apache-2.0
"""Tests of lines and log records of workers, also in a notebook."""

import contextlib
import importlib.util
import io
import logging
import os
import signal
import sys
import threading
import unittest
import unittest.mock

import farcall
import support
import talking
import tasks
from farcall import _output


class Lines(support.TestCase):
    """Lines that workers print."""

    def lines_of(self, work, workers=1):
        """Returns the lines that a function receives while `work(executor)` runs."""
        lines = []
        with farcall.Executor(workers, output=lambda *line: lines.append(line)) as executor:
            work(executor)
        return lines

    def test_function_gets_the_lines_of_both_streams(self):
        lines = self.lines_of(lambda executor: [executor.submit_to(i, talking.print_lines, i).result()
                                                for i in range(2)], 2)
        self.assertEqual(sorted(lines), [(1, 1, "line 0"), (1, 2, "error 0"), (2, 1, "line 1"), (2, 2, "error 1")])

    def test_function_gets_lines_while_calls_run(self):
        got = threading.Event()
        with support.TemporaryFolder() as folder, farcall.Executor(1, output=lambda *line: got.set()) as executor:
            executor.submit(print, "first")
            path = os.path.join(folder, "go")
            running = executor.submit(tasks.pid_after, path)
            self.assertTrue(got.wait(support.GUARD_SECONDS / 2))
            open(path, "w", encoding="ascii").close()
            running.result()

    def test_lines_keep_their_order(self):
        lines = self.lines_of(lambda executor: executor.submit(talking.print_many, 2000).result())
        self.assertEqual([line for _, stream, line in lines if stream == 1], [f"line {i}" for i in range(2000)])

    def test_output_of_commands_and_of_dying_workers_arrives(self):
        def work(executor):
            executor.submit(talking.print_from_a_child).result()
            self.assertRaises(farcall.NodeFailed, executor.submit(talking.print_and_die).result)
            executor.submit(print, "the next worker").result()

        self.assertEqual(self.lines_of(work), [(1, 1, "from a child"), (1, 1, "unfinished line"),
                                               (2, 1, "the next worker")])

    def test_strange_bytes_and_long_lines_arrive(self):
        lines = self.lines_of(lambda executor: executor.submit(
            talking.print_bytes, b"\xff\n\n" + b"x" * 150_000 + b"\nend").result())
        self.assertEqual([line for _, _, line in lines][:2], ["\ufffd", ""])
        self.assertEqual("".join(line for _, _, line in lines[2:-1]), "x" * 150_000)
        self.assertEqual(lines[-1], (1, 1, "end"))

    def test_labels_precede_lines(self):
        for output, expected in (("label", "1: line 7\n"), ("print", "line 7\n")):
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
                with farcall.Executor(1, output=output) as executor:
                    executor.submit(talking.print_lines, 7).result()
            self.assertEqual((out.getvalue(), errors.getvalue()), (expected, expected.replace("line", "error")))

    def test_logger_gets_lines(self):
        with self.assertLogs("farcall.lines", logging.INFO) as logs:
            with farcall.Executor(1, output=logging.getLogger("farcall.lines")) as executor:
                executor.submit(talking.print_lines, 7).result()
        self.assertEqual(sorted(logs.output), ["INFO:farcall.lines:node 1: line 7",
                                               "WARNING:farcall.lines:node 1: error 7"])

    def test_error_of_the_function_does_not_end_the_output(self):
        lines = []

        def receive(_node, _stream, line):
            if line == "bad":
                raise LookupError(line)
            lines.append(line)

        with contextlib.redirect_stderr(io.StringIO()) as errors:
            with farcall.Executor(1, output=receive) as executor:
                executor.submit(print, "bad").result()
                executor.submit(print, "good").result()
        self.assertIn("LookupError: bad", errors.getvalue())
        self.assertEqual(lines[-1:], ["good"])

    def test_function_that_exits_does_not_end_the_output(self):
        lines = []

        def receive(_node, _stream, line):
            if line == "bad":
                sys.exit(line)
            lines.append(line)

        with contextlib.redirect_stderr(io.StringIO()) as errors:
            with farcall.Executor(1, output=receive) as executor:
                executor.submit(print, "bad").result()
                executor.submit(print, "good").result()
        self.assertIn("SystemExit: bad", errors.getvalue())
        self.assertEqual(lines, ["good"])

    def test_function_may_end_the_executor(self):
        for workers in 1, "shm:1":
            with self.subTest(workers=workers):
                ended = threading.Event()

                def receive(_node, _stream, _line):
                    started.result().shutdown()
                    ended.set()

                started = farcall.Future()
                executor = farcall.Executor(workers, output=receive)
                started.set_result(executor)
                executor.submit(print, "end").result()
                self.assertTrue(ended.wait(support.GUARD_SECONDS / 2))
                executor.shutdown()

    def test_child_of_a_worker_does_not_delay_the_end(self):
        pids = []
        lines = self.lines_of(lambda executor: pids.append(executor.submit(talking.leave_behind).result()))
        os.kill(pids[0], signal.SIGKILL)  # raises an exception if the process has ended
        self.assertEqual(lines, [(1, 1, "left behind")])

    def test_workers_keep_the_output_of_the_program_by_default(self):
        status, out, errors = support.run_program("""
            import farcall, sys
            with farcall.Executor(1) as executor:
                executor.submit(print, "from a worker").result()
        """)
        self.assertEqual((status, out, errors), (0, "from a worker\n", ""))

    def test_wrong_settings_are_refused(self):
        self.assertRaisesRegex(TypeError, "output must be", farcall.Executor, 1, output=3)
        self.assertRaisesRegex(ValueError, "log must be", farcall.Executor, 1, log="yes")

    def test_descriptors_are_closed(self):
        self.lines_of(lambda executor: None)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            self.lines_of(lambda executor: executor.submit(tasks.same, 1).result(), 2)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Records(support.TestCase):
    """Log records of workers."""

    def test_records_go_to_the_loggers_of_the_program(self):
        quiet = logging.getLogger("farcall.test.quiet")
        quiet.setLevel(logging.ERROR)
        self.addCleanup(quiet.setLevel, logging.NOTSET)
        with self.assertLogs("farcall.test", logging.INFO) as logs:
            with farcall.Executor(1, log="forward") as executor:
                executor.submit(talking.log_all).result()
        first, second = logs.records
        self.assertEqual((first.levelname, first.getMessage(), first.node), ("INFO", "info two", 1))
        self.assertEqual((second.levelname, second.getMessage()), ("ERROR", "failed"))
        self.assertIn("LookupError: missing", logging.Formatter().format(second))
        self.assertNotEqual(first.process, os.getpid())

    def test_lines_and_records_may_both_be_forwarded(self):
        lines = []
        with self.assertLogs("farcall.test", logging.ERROR) as logs:
            with farcall.Executor(1, output=lambda *line: lines.append(line), log="forward") as executor:
                executor.submit(talking.log_all).result()
                executor.submit(talking.print_lines, 3).result()
        self.assertEqual([record.getMessage() for record in logs.records], ["failed"])
        self.assertEqual(sorted(lines), [(1, 1, "line 3"), (1, 2, "error 3")])


CELLS = ["""
import farcall, logging, sys
logging.basicConfig(stream=sys.stdout, format="%(node)s %(message)s", force=True)
factor = 3
""", """
def scale(value):
    print("scales", value)
    logging.warning("logs %d", value)
    return factor * value

class Total:
    def __init__(self):
        self.sum = 0
    def add(self, value):
        print("adds", value)
        self.sum += value
        return self.sum

executor = farcall.Executor(1, output="label", log="forward")
""", """
total = executor.create(Total)
results = [executor.submit(scale, 2).result(), executor.submit(lambda: factor + 1).result(), total.add(5),
           await executor.submit(scale, 4)]
executor.shutdown()
print(results)
"""]


class Notebook(support.TestCase):
    """Cells of a notebook."""

    @support.needs_cloudpickle
    @unittest.skipUnless(importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"),
                         "nbclient or ipykernel is not installed")
    def test_cells_run_and_get_the_lines_of_workers(self):
        import nbclient
        import nbformat

        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
        with support.TemporaryFolder() as folder:
            nbclient.NotebookClient(notebook, timeout=support.GUARD_SECONDS, kernel_name="python3",
                                    resources={"metadata": {"path": folder}}).execute()
        text = "".join(output.get("text", "") for output in notebook.cells[2].outputs)
        for line in ("[6, 4, 5, 12]", "1: scales 2", "1: adds 5", "1: scales 4", "1 logs 2", "1 logs 4"):
            self.assertIn(line + "\n", text)
        self.assertEqual([cell.outputs for cell in notebook.cells[:2]], [[], []])


class BrokenRecords(support.TestCase):
    """Bytes in the pipe of log records."""

    def test_bytes_that_are_no_records_are_ignored(self):
        records = _output._Records(7)
        with unittest.mock.patch("sys.excepthook") as hook:
            records.feed(b"\5\0\0\0abc")
            hook.assert_not_called()
            records.feed(b"de" + b"\xff\xff\xff\xff" + b"x" * 1000)
            self.assertEqual([call.args[0].__name__ for call in hook.mock_calls], ["UnpicklingError", "ValueError"])
            self.assertIn("node 7 has sent no log record", str(hook.mock_calls[1].args[1]))
            records.feed(b"x" * 1000)
            self.assertEqual(hook.call_count, 2)
            self.assertEqual(len(records._rest), 0)


if __name__ == "__main__":
    support.main()
