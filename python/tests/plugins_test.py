# SPDX-License-Identifier: Apache-2.0
"""Tests of packages that use farcall: joblib, scikit-learn, dask and tqdm."""

import importlib.util
import io
import operator
import os
import threading
import unittest

import farcall
import plugin_tasks
import support
import tasks


def needs(*packages):
    """Skips a test if a package is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


@needs("joblib")
class Joblib(support.TestCase):
    """The backend of joblib."""

    def setUp(self):
        super().setUp()
        import joblib

        self.joblib = joblib
        farcall.joblib.register()
        self.addCleanup(farcall.joblib.end)

    def test_calls_run_on_workers(self):
        delayed = self.joblib.delayed
        with self.joblib.parallel_config("farcall", n_jobs=2):
            self.assertEqual(self.joblib.Parallel()(delayed(pow)(i, 2) for i in range(500)),
                             [i * i for i in range(500)])
            pids = set(self.joblib.Parallel()(delayed(os.getpid)() for _ in range(20)))
            self.assertNotIn(os.getpid(), pids)
            # The workers stay.
            self.assertLessEqual(len(pids | set(self.joblib.Parallel()(delayed(os.getpid)() for _ in range(20)))), 2)

    def test_results_come_as_a_generator(self):
        delayed = self.joblib.delayed
        for how in ("generator", "generator_unordered"):
            with self.joblib.parallel_config("farcall", n_jobs=2):
                results = self.joblib.Parallel(return_as=how)(delayed(tasks.same)(i) for i in range(50))
                first = next(results)
                self.assertEqual(sorted([first, *results]), list(range(50)))

    def test_generator_may_be_dropped(self):
        delayed = self.joblib.delayed
        with self.joblib.parallel_config("farcall", n_jobs=2):
            results = self.joblib.Parallel(return_as="generator")(delayed(tasks.same)(i) for i in range(50))
            self.assertEqual(next(results), 0)
            del results
            self.assertEqual(self.joblib.Parallel()(delayed(tasks.same)(i) for i in range(5)), list(range(5)))

    def test_threads_of_libraries_are_limited(self):
        with self.joblib.parallel_config("farcall", n_jobs=2, inner_max_num_threads=3):
            self.assertEqual(self.joblib.Parallel()(self.joblib.delayed(plugin_tasks.number_of_threads)() for _ in range(2)),
                             ["3", "3"])

    def test_calls_may_be_nested(self):
        with self.joblib.parallel_config("farcall", n_jobs=2):
            got = self.joblib.Parallel()(self.joblib.delayed(plugin_tasks.square_of_sum)([1, 2, i], "FarcallBackend")
                                         for i in range(6))
        self.assertEqual(got, [(5 + i * i, True) for i in range(6)])

    def test_deeply_nested_calls_run_in_their_task(self):
        with self.joblib.parallel_config("farcall", n_jobs=2):
            got = self.joblib.Parallel()(self.joblib.delayed(plugin_tasks.nested_levels)(4) for _ in range(2))
        self.assertEqual(got, [["FarcallBackend", "FarcallBackend", "SequentialBackend", "SequentialBackend"]] * 2)

    def test_forked_child_makes_workers_of_its_own(self):
        parallel = self.joblib.Parallel
        delayed = self.joblib.delayed
        with self.joblib.parallel_config("farcall", n_jobs=2):
            parallel()(delayed(os.getpid)() for _ in range(2))
        with self.joblib.parallel_config("multiprocessing", n_jobs=2):
            self.assertEqual(parallel()(delayed(plugin_tasks.squares_by_farcall)(i) for i in range(2)),
                             [[0, 1, 4], [0, 1, 4]])

    def test_exception_ends_the_other_calls(self):
        delayed = self.joblib.delayed
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            with self.joblib.parallel_config("farcall", n_jobs=2):
                with self.assertRaisesRegex(LookupError, "the first call fails"):
                    self.joblib.Parallel(pre_dispatch="all", batch_size=1)(
                        delayed(plugin_tasks.wait_or_fail)(path, i) for i in range(20))
                # Calls that no worker has got were cancelled.
                open(path, "w", encoding="ascii").close()
                self.assertEqual(self.joblib.Parallel()(delayed(tasks.same)(i) for i in range(5)), list(range(5)))

    def test_dead_worker_is_an_error_and_is_replaced(self):
        delayed = self.joblib.delayed
        with self.joblib.parallel_config("farcall", n_jobs=2):
            self.assertRaises(farcall.NodeFailed, self.joblib.Parallel(), [delayed(tasks.die)()])
            self.assertEqual(self.joblib.Parallel()(delayed(tasks.same)(i) for i in range(5)), list(range(5)))

    def test_program_may_give_its_executor(self):
        executor = self.executor(2)
        with self.joblib.parallel_config("farcall", executor=executor):
            pids = self.joblib.Parallel()(self.joblib.delayed(os.getpid)() for _ in range(10))
        self.assertLessEqual(set(pids), set(executor.broadcast(os.getpid)))

    def test_progress_is_told(self):
        import contextlib

        with self.joblib.parallel_config("farcall", n_jobs=2), contextlib.redirect_stdout(io.StringIO()) as printed:
            self.joblib.Parallel(verbose=50)(self.joblib.delayed(tasks.same)(i) for i in range(4))
        self.assertIn("Done   4 out of   4", printed.getvalue())

    def test_threads_may_call_with_different_numbers(self):
        got = {}

        def work(count):
            with self.joblib.parallel_config("farcall", n_jobs=count):
                got[count] = [self.joblib.Parallel()(self.joblib.delayed(tasks.same)(i) for i in range(30))
                              for _ in range(3)]

        threads = [threading.Thread(target=work, args=(count,)) for count in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, {count: [list(range(30))] * 3 for count in (2, 3)})

    def test_initializer_runs_in_each_worker(self):
        delayed = self.joblib.delayed
        settings = {"initializer": tasks.initialise, "initargs": ("ready",)}
        with self.joblib.parallel_config("farcall", n_jobs=2):
            parallel = self.joblib.Parallel(**settings)
            self.assertEqual(parallel(delayed(tasks.status)() for _ in range(10)), ["ready"] * 10)
        with self.joblib.parallel_config("farcall", n_jobs=2, **settings):
            self.assertEqual(self.joblib.Parallel()(delayed(tasks.status)() for _ in range(10)), ["ready"] * 10)

    def test_wrong_number_is_refused(self):
        with self.joblib.parallel_config("farcall"), self.assertRaises(ValueError):
            self.joblib.Parallel(n_jobs=0)(self.joblib.delayed(tasks.same)(i) for i in range(2))

    @needs("sklearn")
    def test_grid_search_finds_the_best_parameters(self):
        from sklearn.datasets import make_classification
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import GridSearchCV

        x, y = make_classification(n_samples=120, n_features=5, random_state=1)
        grid = {"max_depth": [1, 3], "n_estimators": [3, 10]}

        def best():
            # The forest calls joblib, too.
            search = GridSearchCV(RandomForestClassifier(random_state=1, n_jobs=2), grid, cv=3)
            search.fit(x, y)
            return search.best_params_, search.best_score_

        here = best()
        with self.joblib.parallel_config("farcall", n_jobs=2):
            self.assertEqual(best(), here)


class Dask(support.TestCase):
    """An executor as the scheduler of dask."""

    @needs("dask")
    def test_dask_computes_on_workers(self):
        import dask

        executor = self.executor(2)
        with dask.config.set(scheduler=executor):
            total = dask.delayed(sum)([dask.delayed(pow)(i, 2) for i in range(50)])
            self.assertEqual(total.compute(), sum(i * i for i in range(50)))
            pids = dask.compute(*[dask.delayed(os.getpid, pure=False)() for _ in range(4)])
            self.assertLessEqual(set(pids), set(executor.broadcast(os.getpid)))
            with self.assertRaisesRegex(LookupError, "missing"):
                dask.delayed(tasks.fail)("missing").compute()


class Tqdm(support.TestCase):
    """Progress bars."""

    @needs("tqdm")
    def test_bar_moves_with_each_result(self):
        from tqdm import tqdm

        executor = self.executor(1)
        with support.TemporaryFolder() as folder:
            paths = [os.path.join(folder, str(i)) for i in range(4)]
            for results in (executor.map(tasks.pid_after, paths, chunksize=1),
                            farcall.as_completed([executor.submit(tasks.pid_after, path) for path in paths])):
                bar = tqdm(results, total=4, file=io.StringIO(), mininterval=0, miniters=1)
                moves = iter(bar)
                for i, path in enumerate(paths):
                    open(path, "w", encoding="ascii").close()
                    next(moves)
                    self.assertEqual(bar.n, i)  # the bar counts a result when the next one is asked for
                self.assertRaises(StopIteration, next, moves)
                self.assertEqual(bar.n, 4)
                for path in paths:
                    os.remove(path)

    @needs("tqdm")
    def test_bar_of_a_callback_moves_as_results_arrive(self):
        from tqdm import tqdm

        executor = self.executor(2)
        with tqdm(total=20, file=io.StringIO()) as bar:
            for future in [executor.submit(operator.neg, i) for i in range(20)]:
                future.add_done_callback(lambda _: bar.update())
            self.assertTrue(support.wait_until(lambda: bar.n == 20))


if __name__ == "__main__":
    support.main()
