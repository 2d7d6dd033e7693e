// The part of the browser's storage that the page uses.

export type PageStorage = Pick<Storage, "getItem" | "setItem">;
