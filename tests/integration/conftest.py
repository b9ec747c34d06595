import pathlib
import signal
import sys

import openai
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from process import Router, Sim  # noqa: E402
from upstream import Upstream  # noqa: E402

# A run in the background of a shell has SIGINT ignored, and so would everything that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also run the checks that take minutes")


@pytest.fixture
def long(request):
    return request.config.getoption("--long")


class Lab:
    """Starts processes for one test (or module) and stops them in reverse order, asserting that each ends cleanly."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.running = []

    def _add(self, thing):
        self.running.append(thing)
        return thing

    def _log(self, name):
        return self.directory / f"{name}-{len(self.running)}.log"

    def sim(self, replicas=1, **options):
        return self._add(Sim(self._log("sim"), replicas, **options))

    def router(self, endpoint=(), **options):
        if endpoint:
            options["endpoint"] = list(endpoint)
        return self._add(Router(self._log("router"), **options))

    def epp(self, endpoint_ports=(), **options):
        from ext_proc import Epp
        return self._add(Epp(self._log("epp"), endpoint_ports, **options))

    def upstream(self, **options):
        return self._add(Upstream(**options))

    def close(self):
        faults = []
        for thing in reversed(self.running):
            try:
                thing.stop()
            except AssertionError as fault:
                faults.append(str(fault))
        self.running = []
        assert not faults, "\n".join(faults)


@pytest.fixture
def lab(tmp_path):
    it = Lab(tmp_path)
    yield it
    it.close()


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory):
    it = Lab(tmp_path_factory.mktemp("lab"))
    yield it
    it.close()


def client_of(router, **options):
    return openai.OpenAI(base_url=router.url + "/v1", api_key="any", max_retries=0, timeout=60, **options)
