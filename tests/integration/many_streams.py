"""Holds many slow streams open at once through one router and reports its memory: `make streams`.

usage: [STREAM_SECONDS=30] LLMD_BINARY=... many_streams.py [streams=9000]
"""

import asyncio
import os
import pathlib
import resource
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from process import Router, Sim  # noqa: E402
from wire import chat_body, request  # noqa: E402


SECONDS = int(os.environ.get("STREAM_SECONDS", 30))  # that a stream lasts, a token each


def resident_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


async def stream(port, message, started, errors):
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(message)
        first = await reader.readuntil(b"\r\n\r\n")
        if not first.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(first.splitlines()[0])
        started.append(1)
        tail = b""
        while data := await reader.read(65536):
            tail = (tail + data)[-64:]
            if b"data: [DONE]" in tail:
                break
        else:
            raise RuntimeError("broken off")
        writer.close()
    except Exception as error:
        errors.append(repr(error))


async def main(count):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as directory:
        log = pathlib.Path(directory)
        sim = Sim(log / "sim.log", replicas=4, max_num_seqs=count, inter_token_latency="1s")
        router = Router(log / "router.log", endpoint=sim.urls, refresh_metrics_interval="1s", loops=1)
        try:
            before = resident_mb(router.pid)
            message = request(chat_body(stream=True, max_tokens=SECONDS, ignore_eos=True))
            started, errors, tasks = [], [], []
            begin = time.monotonic()
            for i in range(count):
                tasks.append(asyncio.create_task(stream(router.port, message, started, errors)))
                if i % 200 == 199:
                    await asyncio.sleep(0.05)
            peak = 0
            while len(started) + len(errors) < count:
                await asyncio.sleep(0.2)
            together = router.value("llm_d_epp_request_running")
            peak = resident_mb(router.pid)
            print(f"{together:.0f} streams at once after {time.monotonic() - begin:.1f} s; "
                  f"router: {before:.0f} MB idle, {peak:.0f} MB now, {(peak - before) * 1024 / max(together, 1):.1f} kB a stream", flush=True)
            await asyncio.gather(*tasks)
            print(f"{count - len(errors)} ended whole, {len(errors)} failed {errors[:3]}")
            if together < count:
                print(f"only {together:.0f} of {count} were open at once: it took longer to open them than the {SECONDS} s that each lasts; "
                      "let nothing else run, or set STREAM_SECONDS")
            return 1 if errors or together < count else 0
        finally:
            router.stop()
            sim.stop()


sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9000)))
