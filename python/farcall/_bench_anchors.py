# SPDX-License-Identifier: Apache-2.0
"""Other packages, as python -m farcall.bench uses them. Their modules are imported when they start."""

from __future__ import annotations

import concurrent.futures
import functools
import importlib
import importlib.util
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import farcall

# Time after which a program of an anchor counts as hanging.
_START_SECONDS = 60


class Later(NamedTuple):
    """Result of a call, in the form of a future."""

    result: Callable[..., Any]


class Anchor:
    """Workers of a package, with the function `submit(function, *arguments)`, whose result has the method result()."""

    name = ""
    module = ""  # which the package needs
    is_standard = False  # true for farcall and the standard library
    has_futures = False  # true if submit() returns futures of concurrent.futures
    submit: Callable[..., Any]

    def __init__(self, workers: int) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Ends the workers."""

    @classmethod
    def lack(cls) -> str:
        """Returns why the package cannot be used, or an empty text."""
        return "" if importlib.util.find_spec(cls.module.partition(".")[0]) is not None else "not installed"


class Executor(Anchor):
    """A concurrent.futures.Executor."""

    has_futures = True

    def __init__(self, workers: int) -> None:
        self.executor = self.make(workers)
        self.submit = self.executor.submit

    @classmethod
    def make(cls, workers: int) -> concurrent.futures.Executor:
        """Returns the executor."""
        raise NotImplementedError

    def end(self) -> None:
        self.executor.shutdown()


class Farcall(Executor):
    """farcall."""

    name = "farcall"
    module = "farcall._executor"
    is_standard = True

    @classmethod
    def make(cls, workers: int) -> concurrent.futures.Executor:
        return farcall.Executor(workers)


class Standard(Executor):
    """The executor of the standard library."""

    name = "ProcessPoolExecutor"
    module = "concurrent.futures.process"
    is_standard = True
    method = "fork"

    @classmethod
    def make(cls, workers: int) -> concurrent.futures.Executor:
        context = multiprocessing.get_context(cls.method)
        return concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)


class ForkServer(Standard):
    """The executor of the standard library, as it is by default from Python 3.14 on."""

    name = "ProcessPoolExecutor, forkserver"
    method = "forkserver"


class Pool(Anchor):
    """multiprocessing.Pool."""

    name = "multiprocessing.Pool"
    module = "multiprocessing"
    is_standard = True

    def __init__(self, workers: int) -> None:
        self.pool = multiprocessing.get_context("fork").Pool(workers)

        def submit(function: Callable[..., Any], *arguments: Any) -> Later:
            return Later(self.pool.apply_async(function, arguments).get)

        self.submit = submit

    def end(self) -> None:
        self.pool.terminate()


class Loky(Executor):
    """loky."""

    name = "loky"
    module = "loky"

    @classmethod
    def make(cls, workers: int) -> concurrent.futures.Executor:
        executor: concurrent.futures.Executor = importlib.import_module("loky").ProcessPoolExecutor(workers)
        return executor


class Mpi(Executor):
    """mpi4py.futures."""

    name = "mpi4py"
    module = "mpi4py.futures"

    @classmethod
    def make(cls, workers: int) -> concurrent.futures.Executor:
        executor: concurrent.futures.Executor = importlib.import_module("mpi4py.futures").MPIPoolExecutor(workers)
        return executor

    @classmethod
    def lack(cls) -> str:
        # Open MPI otherwise starts at most one process for each processor.
        os.environ.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "true")
        return super().lack() or _lack_of_mpi()


@functools.cache
def _lack_of_mpi() -> str:
    # MPI ends the process if it cannot start one.
    program = "from mpi4py.futures import MPIPoolExecutor as E; assert E(1).submit(abs, -1).result(20) == 1"
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=_START_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "cannot start here"
    return "" if done.returncode == 0 else "cannot start here"


_RPYC_SERVER = """if True:
    import rpyc
    from rpyc.utils.server import OneShotServer
    server = OneShotServer(rpyc.SlaveService, hostname="127.0.0.1", port=0)
    server.listener.listen()
    print(server.port, flush=True)
    server.start()
    """


class Rpyc(Anchor):
    """rpyc, with one worker behind a connection of TCP."""

    name = "rpyc"
    module = "rpyc"

    def __init__(self, workers: int) -> None:
        del workers
        rpyc: Any = importlib.import_module("rpyc")
        self._process = subprocess.Popen([sys.executable, "-c", _RPYC_SERVER], stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        self._connection = rpyc.classic.connect("127.0.0.1", int(self._process.stdout.readline()))
        self._connection._config["sync_request_timeout"] = None
        begun: dict[Any, Any] = {}

        def submit(function: Callable[..., Any], *arguments: Any) -> Later:
            if function not in begun:
                begun[function] = rpyc.async_(self.remote(function))
            call = begun[function](*arguments)

            def result() -> Any:
                call.wait()
                return call.value

            return Later(result)

        self.submit = submit

    def remote(self, function: Callable[..., Any]) -> Any:
        """Returns a function that calls one of the worker, and waits."""
        return getattr(self._connection.modules[function.__module__], function.__name__)

    def end(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.communicate()


class Joblib(Anchor):
    """joblib, whose only call is a loop. With one worker, it would call functions in this process."""

    name = "joblib"
    module = "joblib"

    def __init__(self, workers: int) -> None:
        joblib: Any = importlib.import_module("joblib")
        self.parallel = joblib.Parallel(n_jobs=max(2, workers)).__enter__()
        self.delayed = joblib.delayed

        def submit(function: Callable[..., Any], *arguments: Any) -> Later:
            values = self.parallel([self.delayed(function)(*arguments)])
            return Later(lambda: values[0])

        self.submit = submit

    def end(self) -> None:
        self.parallel.__exit__(None, None, None)


class Dask(Anchor):
    """Dask's scheduler, with workers on this machine."""

    name = "Dask"
    module = "distributed"

    def __init__(self, workers: int) -> None:
        distributed: Any = importlib.import_module("distributed")
        self._folder = tempfile.mkdtemp()
        self._cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True,
                                                 dashboard_address=None, silence_logs=50,
                                                 local_directory=self._folder)
        self._client = distributed.Client(self._cluster)
        self.submit = functools.partial(self._client.submit, pure=False)

    def end(self) -> None:
        self._client.close()
        self._cluster.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Ray(Anchor):
    """Tasks of Ray."""

    name = "Ray"
    module = "ray"

    def __init__(self, workers: int) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray: Any = importlib.import_module("ray")
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        self.ray = ray
        begun: dict[Any, Any] = {}

        def submit(function: Callable[..., Any], *arguments: Any) -> Later:
            if function not in begun:
                begun[function] = ray.remote(max_retries=0)(lambda *given: function(*given))
            call = begun[function].remote(*arguments)
            return Later(lambda: ray.get(call))

        self.submit = submit

    def end(self) -> None:
        self.ray.shutdown()


# Packages whose workers are measured beside farcall's, in turns; and packages that run alone.
LIGHT: tuple[type[Anchor], ...] = (Standard, Pool, Loky, Mpi, Rpyc)
HEAVY: tuple[type[Anchor], ...] = (Joblib, Dask, Ray)
ALL = {kind.name: kind for kind in (Farcall, Standard, ForkServer, Pool, Loky, Mpi, Rpyc, Joblib, Dask, Ray)}
