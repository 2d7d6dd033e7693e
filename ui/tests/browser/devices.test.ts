import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { pace, row, settings, useBrowser } from "./window";

useBrowser();

/** A device's ways as they stand there: build and text. */
const ways = (page: Page, id: string) => row(page, id).getByTestId("way").evaluateAll((all) => all.map((e) => [(e as HTMLElement).dataset.build, (e as HTMLElement).innerText.replace(/\s+/g, " ").trim()]));
const check = (page: Page, id: string) => row(page, id).getByTestId("check-device");

test("what was found of every build is told in short, and what was not checked too", async () => {
  const { page, errors } = await settings("two-gpus");
  expect(await ways(page, "gpu0")).toEqual([
    ["cuda", "CUDA Used 447 GB/s 25 T weights/s"],
    ["vulkan", "Vulkan (SPIR-V) 431 GB/s 18 T weights/s"],
    ["portable", "Portable (Vulkan) 352 GB/s 4.1 T weights/s"],
  ]);
  expect(await ways(page, "gpu1")).toEqual([["portable", "Portable (Vulkan) not checked yet"]]);
  expect(await ways(page, "cpu")).toEqual([["portable", "CPU 61 GB/s 840 G weights/s"]]);
  const heads = row(page, "gpu0").getByTestId("ways").locator("thead th");
  expect(await heads.nth(1).getAttribute("title")).toContain("weights that it reads in a second");
  expect(await heads.nth(2).getAttribute("title")).toContain("Weights that meet a token");
  await row(page, "cpu").getByTestId("use-for-chat").click();
  await expect.poll(() => ways(page, "gpu0")).toContainEqual(["cuda", "CUDA Would be used 447 GB/s 25 T weights/s"]);
  expect(errors).toEqual([]);
});

test("a check says that it is under way, then what it found, and the fastest build that is right is taken", async () => {
  const { page, errors } = await settings("unchecked-gpu");
  expect(await page.getByTestId("build-why").textContent()).toBe("Automatic takes Portable (Vulkan) until all have been measured.");
  expect((await ways(page, "gpu0"))[0]).toEqual(["portable", "Portable (Vulkan) Used not checked yet"]);
  await pace(page, 30);
  const button = page.getByRole("button", { name: "Check AMD Radeon RX 7800 XT" });
  await button.focus();
  await page.keyboard.press("Enter");
  const busy = page.getByRole("button", { name: "Checking… AMD Radeon RX 7800 XT" });
  await busy.waitFor();
  expect([await busy.textContent(), await busy.getAttribute("aria-busy"), await busy.isDisabled()]).toEqual(["Checking…", "true", true]);
  expect(await check(page, "cpu").isDisabled()).toBe(true);
  // It goes on while another page is looked at.
  await page.getByTestId("view-models").click();
  await page.getByTestId("view-settings").click();
  await expect.poll(() => ways(page, "gpu0")).toEqual([
    ["rocm", "ROCm Used 561 GB/s 27 T weights/s"],
    ["portable", "Portable (Vulkan) 487 GB/s 5.2 T weights/s"],
    ["vulkan", "Vulkan (SPIR-V) failed the check"],
  ]);
  expect(await row(page, "gpu0").getByTestId("way-wrong").textContent()).toContain("Vulkan (SPIR-V): Its driver computes something else than the processor does");
  expect(await ways(page, "cpu")).toEqual([["portable", "CPU 61 GB/s 840 G weights/s"]]);
  expect(await page.getByTestId("announcer").textContent()).toBe("AMD Radeon RX 7800 XT was checked.");
  expect(await check(page, "gpu0").isEnabled()).toBe(true);
  expect(await page.getByTestId("choice-device").textContent()).toContain("AMD Radeon RX 7800 XT, through ROCm");
  expect(await page.getByTestId("build-vulkan").isDisabled()).toBe(true);
  expect(errors).toEqual([]);
});

test("a check that cannot be made leaves the reason at its device", async () => {
  const { page } = await settings("software-gpu");
  await page.evaluate(() => Object.assign((window as unknown as { fakeHost: object }).fakeHost, { checkDevice: () => Promise.reject({ code: "workerDied", message: "The worker ended while the device was checked. Check it again." }) }));
  await check(page, "gpu0").click();
  await expect.poll(() => row(page, "gpu0").getByTestId("check-failed").textContent()).toContain("Check it again.");
  expect(await row(page, "cpu").getByTestId("check-failed").count()).toBe(0);
  expect(await check(page, "gpu0").textContent()).toBe("Check");
});

test("another build is taken with one click, and the fastest again with another", async () => {
  const { page } = await settings("two-gpus");
  const why = () => page.getByTestId("build-why").textContent();
  const chat = () => page.getByTestId("choice-device").textContent();
  expect(await why()).toBe("Automatic takes CUDA: it was measured fastest.");
  await page.getByTestId("build-auto").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await expect.poll(why).toBe("Chosen by you, for chat and training.");
  await expect.poll(chat).toContain("RTX 4070, through Vulkan");
  expect(await page.getByRole("radiogroup", { name: "Backend" }).getByRole("radio", { name: "Vulkan (SPIR-V)" }).isChecked()).toBe(true);
  expect((await ways(page, "gpu0"))[1]?.[1]).toContain("Vulkan (SPIR-V) Used");
  const planned = () => page.evaluate(() => (window as unknown as { fakeHost: { planned: { build: string | null }[] } }).fakeHost.planned.at(-1)?.build);
  await expect.poll(planned).toBe("vulkan");
  await row(page, "gpu1").getByTestId("use-for-training").click();
  await expect.poll(why).toBe("Chosen by you, for chat; training takes the fastest.");
  await page.getByTestId("build-auto").check();
  await expect.poll(chat).toContain("RTX 4070, through CUDA");
  await expect.poll(planned).toBe(null);
});

test("where there is no choice of builds, none is offered", async () => {
  const { page } = await settings("two-gpus");
  await row(page, "gpu1").getByTestId("use-for-chat").click();
  await expect.poll(() => page.getByTestId("choice-build").textContent()).toMatch(/Portable \(Vulkan\)\s*Only one build of Hearth can use this GPU\./);
  expect(await page.getByTestId("build-auto").count()).toBe(0);
  await row(page, "cpu").getByTestId("use-for-chat").click();
  await page.getByTestId("choice-build").waitFor({ state: "detached" });
});

test("settings that name a device by its old id, one that is gone, and a build that is not there are understood", async () => {
  const { page } = await settings("old-settings");
  expect(await page.getByTestId("choice-device").textContent()).toContain("NVIDIA GeForce RTX 4070");
  expect(await row(page, "gpu0").getByTestId("use-for-chat").getAttribute("aria-pressed")).toBe("true");
  expect(await page.getByTestId("device-lost").allTextContents()).toEqual([expect.stringContaining("chose for training (0000:05:00.0) is not here")]);
  expect(await page.getByTestId("build-rocm").isChecked()).toBe(true);
  expect(await page.getByTestId("build-why").textContent()).toBe("ROCm is not available for this GPU. Choose another one, or Automatic.");
  await page.getByTestId("build-cuda").check();
  await expect.poll(() => page.getByTestId("build-why").textContent()).toContain("Chosen by you");
  expect(await page.getByTestId("build-rocm").count()).toBe(0);
});

test("a GPU that no build is right on is not used, and can be checked again", async () => {
  const { page } = await settings("wrong-gpu");
  expect(await row(page, "gpu0").getByTestId("device-problem").textContent()).toContain("a sample learns otherwise, by 12.4 %");
  expect(await ways(page, "gpu0")).toEqual([["portable", "Portable (Vulkan) failed the check"]]);
  expect(await row(page, "gpu0").getByTestId("way-wrong").count()).toBe(0);
  expect(await page.getByTestId("choice-build").count()).toBe(0);
  expect(await page.getByTestId("no-gpu").count()).toBe(1);
  expect(await check(page, "gpu0").isEnabled()).toBe(true);
});
