"""Workers behind a real queue: each fact is embedded once, whoever dies and whatever is lost."""

import time
from collections import Counter

import pytest

from apart import store_serving
from gateway_serving import SECONDS
from waiting import wait_until
from worker_process import Stack

TAKEOVER_SECONDS = 30.0
RENEWAL_SECONDS = 2.0
SLOW = {"FAKE_SECONDS": "0.3"}


def texts(stack: Stack) -> Counter[str]:
    """How often each text of a fact was embedded."""
    lines = stack.embedded.read_text().splitlines() if stack.embedded.exists() else []
    return Counter(line for line in lines if line.startswith("fact number"))


def test_what_was_written_is_embedded_by_the_real_worker_which_fits_into_200_mb(stack: Stack):
    stack.write(20)
    with stack.worker() as worker:
        wait_until(stack.has(20), about=worker.said.read_text())
        assert resident_megabytes(worker.process.pid) < 200
        assert worker.stop() == 0


def resident_megabytes(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:  # noqa: PTH123  a short line's worth
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def test_work_of_a_worker_killed_in_mid_batch_is_taken_over(stack: Stack):
    stack.write(8)
    with stack.fake(**SLOW) as first:
        wait_until(lambda: texts(stack).total() > 1)
        first.kill()
    killed = time.monotonic()
    assert stack.store.stats().embedded < 8
    with stack.fake():
        wait_until(stack.has(8))
    assert time.monotonic() - killed < TAKEOVER_SECONDS


def test_a_worker_that_is_told_to_stop_gives_back_what_it_has_not_begun(stack: Stack):
    stack.write(8)
    with stack.fake(**SLOW) as first:
        wait_until(lambda: texts(stack).total() > 1)
        assert first.stop() == 0
    begun = stack.store.stats().embedded
    assert 0 < begun < 8
    with stack.fake():
        wait_until(stack.has(8), seconds=10)
    assert texts(stack).total() == 8


def test_two_workers_share_the_work_and_each_fact_is_embedded_once(stack: Stack):
    with stack.fake(FAKE_SECONDS="0.02") as one, stack.fake(FAKE_SECONDS="0.02") as other:
        stack.write(300)
        wait_until(stack.has(300))
        assert one.process.poll() is other.process.poll() is None
    assert len(texts(stack)) == 300
    assert set(texts(stack).values()) == {1}


def test_a_text_that_the_model_fails_on_is_set_aside_with_the_reason(stack: Stack):
    stack.write(3)
    stack.write(1, "poison")
    with stack.fake():
        wait_until(lambda: stack.store.stats().backlog.failed == 1)
        wait_until(stack.has(2))
    backlog = stack.store.stats().backlog
    assert backlog.pending == 0
    assert backlog.failure == "The embedder failed on this text."


def test_another_model_embeds_everything_anew_while_its_progress_is_told(stack: Stack):
    stack.write(40)
    with stack.fake("one"):
        wait_until(stack.has(40))
    with stack.fake("two", FAKE_SECONDS="0.05"):
        seen = set[int]()
        wait_until(lambda: remembered(seen, stack.store.stats().backlog.pending) == 0)
    assert len(seen) > 2
    assert max(seen) > 30
    stats = stack.store.stats()
    assert stats.embedded == 40
    assert stats.model is not None
    assert stats.model.startswith("two:")


def remembered(seen: set[int], number: int) -> int:
    seen.add(number)
    return number


def test_the_embedding_goes_on_without_redis_and_after_redis_was_emptied(stack: Stack):
    with stack.fake():
        stack.redis.stop()
        stack.write(10)
        wait_until(stack.has(10))
        stack.redis.start()
        stack.write(20)
        wait_until(stack.has(20))


def test_a_store_that_was_restarted_is_served_again(stack: Stack):
    with stack.fake() as worker:
        stack.write(5)
        wait_until(stack.has(5))
        stack.process.process.terminate()
        stack.process.process.wait(SECONDS)
        with store_serving(stack.folder / "memory.db", stack.process.port):
            stack.write(10)
            wait_until(stack.has(10), about=worker.said)


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ({"MCP_REDIS_URL": ""}, "set MCP_REDIS_URL"),
        ({"MCP_REDIS_URL": "http://x"}, "MCP_REDIS_URL must be redis://"),
        ({"MCP_STORE_URL": ""}, "set MCP_STORE_URL"),
        ({"MCP_EMBEDDINGS": "off"}, "MCP_EMBEDDINGS"),
    ],
)
def test_a_worker_without_what_it_needs_says_so(monkeypatch, capsys, missing, sentence):
    from memory_embedder.main import main  # noqa: PLC0415  Celery is for these tests alone

    given = {
        "MCP_REDIS_URL": "redis://127.0.0.1:1/0",
        "MCP_STORE_URL": "http://127.0.0.1:1",
        "MCP_STORE_SECRET": "a secret of sixteen letters",
    }
    for name, value in (given | missing).items():
        monkeypatch.setenv(name, value)
    assert main() == 2
    assert sentence in capsys.readouterr().err


def test_a_file_is_renewed_for_as_long_as_a_worker_takes_work(stack: Stack):
    file = stack.folder / "beat"

    def age() -> float:
        return time.time() - file.stat().st_mtime

    with stack.worker(MCP_BEAT_FILE=str(file), MCP_EMBEDDING_MODEL="none"):
        wait_until(file.exists)
        stack.redis.stop()
        wait_until(lambda: age() > 2 * RENEWAL_SECONDS)
        stack.redis.start()
        wait_until(lambda: age() < RENEWAL_SECONDS)


def test_a_file_that_cannot_be_renewed_is_named_in_the_log(stack: Stack):
    with stack.worker(MCP_BEAT_FILE="/no/such/folder", MCP_EMBEDDING_MODEL="none") as worker:
        wait_until(lambda: "MCP_BEAT_FILE" in worker.said.read_text(), about=worker.said)
