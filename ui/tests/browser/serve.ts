// Builds and serves the page once for all browser tests.

import type { TestProject } from "vitest/node";
import { servePage } from "../../scripts/serve.mjs";

declare module "vitest" {
  export interface ProvidedContext {
    address: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const page = await servePage();
  project.provide("address", page.address);
  return page.close;
}
