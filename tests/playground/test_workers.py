"""The worker pool: every way for a job to end has its own error, and affects no process but its own."""

import asyncio
import io
import json
import sys
from contextlib import aclosing

import playground_support
import psutil
import pytest

from tutelage.playground.workers import JobFailed, WorkerPool, _Job


def run(scenario, *, count=1, time_limit=600.0):
    """The result of a scenario with a new pool."""

    async def main():
        workers = WorkerPool(playground_support.echo_job, count=count, time_limit=time_limit)
        async with workers.running():
            return await scenario(workers)

    return asyncio.run(main())


async def process_of(workers: WorkerPool) -> int:
    """The process that answers now."""
    return json.loads(await workers.answer("echo", "null"))["process"]


def test_an_answer_is_the_job_s_own_text():
    """Any letters, line breaks and sizes arrive unchanged."""
    said = {"text": "two\nlines \u2028 and \u00e9 \U0001f31f", "numbers": [0.1, -0.0, 1e300], "long": "x" * 300_000}

    async def scenario(workers):
        return json.loads(await workers.answer("echo", json.dumps(said)))["said"]

    assert run(scenario) == said


def test_events_come_in_order_and_one_by_one():
    """Each event has its name and its data on one line; none is lost or repeated."""

    async def scenario(workers):
        return [event async for event in workers.events("events", "500")]

    events = run(scenario)
    assert [event.name for event in events] == ["number"] * 500
    assert [int(event.data) for event in events] == list(range(500))


def test_one_process_does_one_job_after_the_other():
    """A process that finished its job, or refused it, is kept for the next."""

    async def scenario(workers):
        found = [await process_of(workers) for _ in range(3)]
        with pytest.raises(JobFailed, match="no such world"):
            await workers.answer("refuse", "")
        return [*found, await process_of(workers)]

    assert len(set(run(scenario))) == 1


def test_as_many_jobs_run_at_once_as_there_are_processes():
    """Of two processes one hangs, and the other goes on answering."""

    async def scenario(workers):
        async with aclosing(workers.events("hang", "")) as hanging:
            stuck = int((await anext(hanging)).data)
            return stuck, {await process_of(workers) for _ in range(3)}

    stuck, answering = run(scenario, count=2)
    assert len(answering) == 1 and stuck not in answering


@pytest.mark.parametrize(
    ("name", "status", "sentence", "is_kept"),
    [
        ("refuse", 422, "^there is no such world$", True),
        ("fail", 500, "should not have happened: it is a mistake in Tutelage", False),
        ("exit", 500, "has crashed; the others go on", False),
        ("kill", 500, "has crashed; the others go on", False),
        ("hang", 422, "longer than 2 s and was stopped", False),
    ],
)
def test_every_way_of_ending_has_a_sentence_and_the_pool_goes_on(name, status, sentence, is_kept):
    """Each ending has a status code and a sentence; a process that may be broken is replaced."""

    async def scenario(workers):
        found = []
        with pytest.raises(JobFailed, match=sentence) as ended:
            async for event in workers.events(name, ""):
                found.append(int(event.data))
        assert ended.value.status == status
        assert psutil.pid_exists(found[0]) == is_kept
        following = await process_of(workers)
        assert (following == found[0]) == is_kept

    run(scenario, time_limit=2.0 if name == "hang" else 600.0)


def test_time_waiting_for_a_process_does_not_count():
    """The limit is for the computation: a job that waited longer than the limit still runs to its end."""

    async def scenario(workers):
        async def hanging():
            with pytest.raises(JobFailed, match="longer than 2 s"):
                await workers.answer("hang", "")

        slow = [asyncio.create_task(hanging()) for _ in range(2)]
        await asyncio.wait(slow[:1], timeout=0)
        await process_of(workers)
        assert all(task.done() for task in slow)

    run(scenario, time_limit=2.0)


def test_closing_the_events_stops_the_job():
    """Closing the events kills the process before its time limit, and the next job gets another process."""

    async def scenario(workers):
        async with aclosing(workers.events("hang", "")) as events:
            listened = int((await anext(events)).data)
        assert not psutil.pid_exists(listened)
        assert await process_of(workers) != listened

    run(scenario)


def test_cancelling_a_task_stops_its_job():
    """A task that is cancelled while it waits for an event leaves no process running."""

    async def scenario(workers):
        started = asyncio.get_running_loop().create_future()

        async def listen():
            async for event in workers.events("hang", ""):
                started.set_result(int(event.data))

        listening = asyncio.create_task(listen())
        process = await started
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        assert not psutil.pid_exists(process)
        assert await process_of(workers) != process

    run(scenario)


def test_cancelling_a_waiting_task_takes_no_process():
    """A job that leaves the queue takes no process with it."""

    async def scenario(workers):
        async with aclosing(workers.events("hang", "")) as hanging:
            await anext(hanging)
            waiting = [asyncio.create_task(process_of(workers)) for _ in range(3)]
            await asyncio.wait(waiting, timeout=0)
            for task in waiting[:2]:
                task.cancel()
        await waiting[2]
        assert await process_of(workers) == waiting[2].result()

    run(scenario)


def test_urgent_jobs_go_first():
    """Of the waiting jobs the urgent ones run first, each kind in order of arrival."""

    async def scenario(workers):
        done = []

        async def job(name, is_urgent):
            async with aclosing(workers.events("echo", "null", is_urgent=is_urgent)) as events:
                _ = [event async for event in events]
            done.append(name)

        async with aclosing(workers.events("hang", "")) as hanging:
            await anext(hanging)
            names = {"later": False, "urgent": True, "last": False, "urgent too": True}
            waiting = [asyncio.create_task(job(name, is_urgent)) for name, is_urgent in names.items()]
            await asyncio.wait(waiting, timeout=0)
        await asyncio.gather(*waiting)
        return done

    assert run(scenario) == ["urgent", "urgent too", "later", "last"]


def test_a_process_killed_while_idle_costs_one_job_at_the_most():
    """A process that is killed between two jobs is replaced; at most one job fails."""

    async def scenario(workers):
        first = await process_of(workers)
        psutil.Process(first).kill()
        try:
            found = await process_of(workers)
        except JobFailed:
            found = await process_of(workers)
        assert found != first

    run(scenario)


def test_closing_leaves_no_process_behind():
    """All processes end with the pool, those that are idle and those that would never end by themselves."""

    async def scenario(workers):
        processes = [await process_of(workers)]
        hanging = workers.events("hang", "")
        processes.append(int((await anext(hanging)).data))
        return processes, hanging

    processes, _ = run(scenario, count=3)
    assert not any(psutil.pid_exists(process) for process in processes)


def test_stopping_ends_every_job_that_runs_or_waits():
    """When the pool stops, every job raises `JobFailed`, also those in the queue."""

    async def scenario(workers):
        hanging = workers.events("hang", "")
        await anext(hanging)
        waiting = [asyncio.create_task(process_of(workers)) for _ in range(3)]
        await asyncio.wait(waiting, timeout=0)
        workers.stop()
        for job in (anext(hanging), *waiting, process_of(workers)):
            with pytest.raises(JobFailed, match="the playground has ended"):
                await job

    run(scenario)


def test_processes_are_spawned_where_the_system_cannot_fork():
    """Windows has no fork server: the same jobs run in spawned processes."""

    async def scenario(workers):
        return json.loads(await workers.answer("echo", '"said"'))["said"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
        assert run(scenario) == "said"
    assert "playground_support" in sys.modules


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_process_that_is_stopped_while_its_last_line_is_on_its_way_gets_no_other_job(is_wanted):
    """A client may go between the last event of a job and its end: then the process is dead."""

    async def scenario(workers):
        job, reader = _Job("echo", "null"), asyncio.StreamReader()
        kept = asyncio.create_task(workers._run((None, reader, io.BytesIO()), job))
        reader.feed_data(b"said 1\n")
        assert (await job.arrived.get()).data == "1"
        job.request = job.request if is_wanted else None
        reader.feed_data(b'. ["", 200]\n')
        return await kept

    assert run(scenario) is is_wanted
