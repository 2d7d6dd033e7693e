import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { pace, row, settings, useBrowser } from "./window";

useBrowser();

/** The rows of a device's backend table: build and text. */
const ways = (page: Page, id: string) =>
  row(page, id)
    .getByTestId("backend")
    .evaluateAll((all) =>
      all.map((e) => [(e as HTMLElement).dataset.build, (e as HTMLElement).innerText.replace(/\s+/g, " ").trim()]),
    );
const check = (page: Page, id: string) => row(page, id).getByTestId("check-device");

test("shows the result of every backend, and which were not checked", async () => {
  const { page, errors } = await settings("two-gpus");
  expect(await ways(page, "gpu0")).toEqual([
    ["cuda", "CUDA In use 447 GB/s 25 TMAC/s"],
    ["vulkan", "Vulkan (SPIR-V) 431 GB/s 18 TMAC/s"],
    ["portable", "Portable (Vulkan) 352 GB/s 4.1 TMAC/s"],
  ]);
  expect(await ways(page, "gpu1")).toEqual([["portable", "Portable (Vulkan) Not checked yet"]]);
  expect(await ways(page, "cpu")).toEqual([["portable", "CPU 61 GB/s 840 GMAC/s"]]);
  const heads = row(page, "gpu0").getByTestId("backends").locator("thead th");
  expect(await heads.nth(1).getAttribute("title")).toContain("weights read per second");
  expect(await heads.nth(2).getAttribute("title")).toContain("Multiply-accumulates");
  await row(page, "cpu").getByTestId("use-for-chat").click();
  await expect.poll(() => ways(page, "gpu0")).toContainEqual(["cuda", "CUDA Preferred 447 GB/s 25 TMAC/s"]);
  expect(errors).toEqual([]);
});

test("a check shows that it runs, then its results, and the fastest matching build is used", async () => {
  const { page, errors } = await settings("unchecked-gpu");
  expect(await page.getByTestId("build-why").textContent()).toBe(
    "Automatic uses Portable (Vulkan) until all backends have been measured.",
  );
  expect((await ways(page, "gpu0"))[0]).toEqual(["portable", "Portable (Vulkan) In use Not checked yet"]);
  await pace(page, Number.POSITIVE_INFINITY);
  const button = page.getByRole("button", { name: "Check AMD Radeon RX 7800 XT" });
  await button.focus();
  await page.keyboard.press("Enter");
  const busy = page.getByRole("button", { name: "Checking… AMD Radeon RX 7800 XT" });
  await busy.waitFor();
  expect([await busy.textContent(), await busy.getAttribute("aria-busy"), await busy.isDisabled()]).toEqual([
    "Checking…",
    "true",
    true,
  ]);
  expect(await check(page, "cpu").isDisabled()).toBe(true);
  // It continues while another page is open.
  await page.getByTestId("view-models").click();
  await page.getByTestId("view-settings").click();
  await pace(page, 0);
  await expect
    .poll(() => ways(page, "gpu0"))
    .toEqual([
      ["rocm", "ROCm In use 561 GB/s 27 TMAC/s"],
      ["portable", "Portable (Vulkan) 487 GB/s 5.2 TMAC/s"],
      ["vulkan", "Vulkan (SPIR-V) Failed the check"],
    ]);
  expect(await row(page, "gpu0").getByTestId("backend-mismatch").textContent()).toContain(
    "Vulkan (SPIR-V): Its driver's results differ from the CPU's",
  );
  expect(await ways(page, "cpu")).toEqual([["portable", "CPU 61 GB/s 840 GMAC/s"]]);
  expect(await page.getByTestId("announcer").textContent()).toBe("AMD Radeon RX 7800 XT was checked.");
  expect(await check(page, "gpu0").isEnabled()).toBe(true);
  expect(await page.getByTestId("choice-device").textContent()).toContain("AMD Radeon RX 7800 XT (ROCm)");
  expect(await page.getByTestId("build-vulkan").isDisabled()).toBe(true);
  expect(errors).toEqual([]);
});

test("a failed check shows the reason at its device", async () => {
  const { page } = await settings("software-gpu");
  await page.evaluate(() =>
    Object.assign((window as unknown as { fakeHost: object }).fakeHost, {
      checkDevice: () =>
        Promise.reject({
          code: "workerDied",
          reason: { area: "detail", detail: "The worker ended while the device was checked. Check it again." },
        }),
    }),
  );
  await check(page, "gpu0").click();
  await expect.poll(() => row(page, "gpu0").getByTestId("check-failed").textContent()).toContain("Check it again.");
  expect(await row(page, "cpu").getByTestId("check-failed").count()).toBe(0);
  expect(await check(page, "gpu0").textContent()).toBe("Check");
});

test("one click chooses another build, and another returns to the fastest", async () => {
  const { page } = await settings("two-gpus");
  const reason = () => page.getByTestId("build-why").textContent();
  const chat = () => page.getByTestId("choice-device").textContent();
  expect(await reason()).toBe("Automatic uses CUDA: measured fastest.");
  await page.getByTestId("build-auto").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await expect.poll(reason).toBe("Chosen by you, for chat and training.");
  await expect.poll(chat).toContain("RTX 4070 (Vulkan)");
  expect(
    await page.getByRole("radiogroup", { name: "Backend" }).getByRole("radio", { name: "Vulkan (SPIR-V)" }).isChecked(),
  ).toBe(true);
  expect((await ways(page, "gpu0"))[1]?.[1]).toContain("Vulkan (SPIR-V) In use");
  const planned = () =>
    page.evaluate(
      () => (window as unknown as { fakeHost: { planned: { build: string | null }[] } }).fakeHost.planned.at(-1)?.build,
    );
  await expect.poll(planned).toBe("vulkan");
  await row(page, "gpu1").getByTestId("use-for-training").click();
  await expect.poll(reason).toBe("Chosen by you, for chat; training uses the fastest.");
  await page.getByTestId("build-auto").check();
  await expect.poll(chat).toContain("RTX 4070 (CUDA)");
  await expect.poll(planned).toBe(null);
});

test("offers no choice if there is only one build", async () => {
  const { page } = await settings("two-gpus");
  await row(page, "gpu1").getByTestId("use-for-chat").click();
  await expect
    .poll(() => page.getByTestId("choice-build").textContent())
    .toMatch(/Portable \(Vulkan\)\s*The only backend for this GPU\./);
  expect(await page.getByTestId("build-auto").count()).toBe(0);
  await row(page, "cpu").getByTestId("use-for-chat").click();
  await page.getByTestId("choice-build").waitFor({ state: "detached" });
});

test("understands settings with an old device id, a missing device and a missing build", async () => {
  const { page } = await settings("old-settings");
  expect(await page.getByTestId("choice-device").textContent()).toContain("NVIDIA GeForce RTX 4070");
  expect(await row(page, "gpu0").getByTestId("use-for-chat").getAttribute("aria-pressed")).toBe("true");
  expect(await page.getByTestId("device-lost").allTextContents()).toEqual([
    expect.stringContaining("chose for training (0000:05:00.0) is missing"),
  ]);
  expect(await page.getByTestId("build-rocm").isChecked()).toBe(true);
  expect(await page.getByTestId("build-why").textContent()).toBe(
    "ROCm is not available for this GPU. Choose another one, or Automatic.",
  );
  await page.getByTestId("build-cuda").check();
  await expect.poll(() => page.getByTestId("build-why").textContent()).toContain("Chosen by you");
  expect(await page.getByTestId("build-rocm").count()).toBe(0);
});

test("a GPU on which every build mismatches is not used and can be checked again", async () => {
  const { page } = await settings("wrong-gpu");
  expect(await row(page, "gpu0").getByTestId("device-problem").textContent()).toContain(
    "the loss of a sample run is off by 12.4 %",
  );
  expect(await ways(page, "gpu0")).toEqual([["portable", "Portable (Vulkan) Failed the check"]]);
  expect(await row(page, "gpu0").getByTestId("backend-mismatch").count()).toBe(0);
  expect(await page.getByTestId("choice-build").count()).toBe(0);
  expect(await page.getByTestId("no-gpu").count()).toBe(1);
  expect(await check(page, "gpu0").isEnabled()).toBe(true);
});
