import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Runner } from "../../src/lib/workers/runner";
import { FakeWorkers } from "./workers";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function harness(limits = { first: 100, retry: 1_000 }) {
  const workers = new FakeWorkers<string>();
  return { workers, runner: new Runner<string, string>(workers.start, limits) };
}

describe("a worker", () => {
  test("does one job after the other", async () => {
    const { workers, runner } = harness();
    const [a, b] = [runner.run("a"), runner.run("b")];
    workers.last.ready();
    expect(workers.jobs).toEqual(["a"]);
    workers.last.reply("A");
    workers.last.reply(null);
    expect([await a, await b]).toEqual(["A", null]);
    expect(workers.all.length).toBe(1);
  });

  test("is ended when a job takes too long, which is tried once more after all others", async () => {
    const { workers, runner } = harness();
    const [slow, slower, quick] = [runner.run("slow"), runner.run("slower"), runner.run("quick")];
    for (const _ of ["slow", "slower"]) {
      workers.last.ready();
      vi.advanceTimersByTime(100);
    }
    workers.last.ready();
    workers.last.reply("quick");
    expect(await quick).toBe("quick");
    vi.advanceTimersByTime(999);
    workers.last.reply("slow");
    expect(await slow).toBe("slow");
    vi.advanceTimersByTime(1_000);
    expect(await slower).toBeNull();
    expect(workers.jobs).toEqual(["slow", "slower", "quick", "slow", "slower"]);
    expect(workers.all.map(({ ended }) => ended)).toEqual([true, true, true]);
  });

  test("tries no job again without a second limit", async () => {
    const { workers, runner } = harness({ first: 100, retry: 0 });
    const job = runner.run("a");
    workers.last.ready();
    vi.advanceTimersByTime(100);
    expect(await job).toBeNull();
    expect(workers.jobs).toEqual(["a"]);
  });

  test("has time to load its script before the time of its first job begins", async () => {
    const { workers, runner } = harness();
    const job = runner.run("a");
    vi.advanceTimersByTime(10_000);
    workers.last.ready();
    vi.advanceTimersByTime(99);
    workers.last.reply("A");
    expect(await job).toBe("A");
  });

  test("does not do a job that was withdrawn while it waited", async () => {
    const { workers, runner } = harness();
    const [slow, , last] = [runner.run("slow"), runner.run("left"), runner.run("last")];
    workers.last.ready();
    expect([runner.withdraw("slow"), runner.withdraw("left"), runner.withdraw("left")]).toEqual([false, true, false]);
    vi.advanceTimersByTime(100);
    expect(runner.withdraw("slow")).toBe(true);
    workers.last.ready();
    workers.last.reply("last");
    expect(await last).toBe("last");
    expect(workers.jobs).toEqual(["slow", "last"]);
    expect(await Promise.race([slow, "waits"])).toBe("waits");
  });

  test("that was ended is not heard any more", async () => {
    const { workers, runner } = harness({ first: 100, retry: 0 });
    const [a, b] = [runner.run("a"), runner.run("b")];
    const [first] = workers.all;
    first?.ready();
    vi.advanceTimersByTime(100);
    expect(await a).toBeNull();
    first?.reply("late", 2);
    first?.onerror?.call(first as unknown as Worker, { preventDefault: () => {} } as ErrorEvent);
    workers.last.ready();
    workers.last.reply("B");
    expect(await b).toBe("B");
  });

  test.each(["onerror", "onmessageerror"] as const)("whose %s is called fails only in its job", async (name) => {
    const { workers, runner } = harness();
    const [a, b] = [runner.run("a"), runner.run("b")];
    workers.last.ready();
    const broken = workers.last;
    broken[name]?.call(broken as unknown as Worker, { preventDefault: () => {} } as ErrorEvent & MessageEvent);
    expect(await a).toBeNull();
    expect(broken.ended).toBe(true);
    workers.last.ready();
    workers.last.reply("B");
    expect(await b).toBe("B");
  });

  test("that cannot be started fails all that wait for it, and is tried again for the next", async () => {
    const { workers, runner } = harness();
    const jobs = [runner.run("a"), runner.run("b")];
    const refused = Promise.all(jobs.map((job) => expect(job).rejects.toThrow("could not be started")));
    workers.last.onerror?.call(workers.last as unknown as Worker, { preventDefault: () => {} } as ErrorEvent);
    await refused;
    expect(workers.all.length).toBe(1);
    const next = runner.run("c");
    const late = expect(next).rejects.toThrow("could not be started");
    vi.advanceTimersByTime(60_000);
    await late;
    const last = runner.run("d");
    workers.last.ready();
    workers.last.reply("D");
    expect(await last).toBe("D");
    expect(workers.all.map(({ ended }) => ended)).toEqual([true, true, false]);
  });
});
