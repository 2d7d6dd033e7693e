// Row offsets of a virtual list: measured heights, else estimates.

export class RowLayout {
  private keys: readonly number[] = [];
  private offsets: Float64Array = new Float64Array(1);
  /** Offsets up to and including this row are valid. */
  private valid = 0;
  private readonly measured = new Map<number, number>();
  private estimate: (index: number) => number = () => 100;

  /** Sets the rows from top to bottom. Measured heights of remaining rows are retained. */
  setRows(keys: readonly number[], estimate: (index: number) => number): void {
    let same = 0;
    while (same < keys.length && keys[same] === this.keys[same]) same++;
    this.keys = keys;
    this.estimate = estimate;
    if (this.offsets.length < keys.length + 1) {
      const resized = new Float64Array(Math.ceil((keys.length + 1) * 1.5));
      resized.set(this.offsets);
      this.offsets = resized;
    }
    this.valid = Math.min(this.valid, same);
  }

  get count(): number {
    return this.keys.length;
  }

  /** Sets a measured height; returns `true` if it changed. */
  measure(key: number, height: number): boolean {
    if (Math.abs((this.measured.get(key) ?? -1) - height) < 0.5) return false;
    this.measured.set(key, height);
    const index = this.keys.indexOf(key, 0);
    if (index >= 0) this.valid = Math.min(this.valid, index);
    return true;
  }

  /** Offset of a row; of the row after the last: the end of the list. */
  offset(index: number): number {
    const until = Math.min(index, this.keys.length);
    for (let i = this.valid; i < until; i++) {
      this.offsets[i + 1] = (this.offsets[i] ?? 0) + this.height(i);
    }
    this.valid = Math.max(this.valid, until);
    return this.offsets[until] ?? 0;
  }

  get total(): number {
    return this.offset(this.keys.length);
  }

  /** The row at an offset from the top, clamped to the list. */
  rowAt(y: number): number {
    void this.total;
    let low = 0;
    let high = Math.max(0, this.keys.length - 1);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.offsets[middle] ?? 0) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  private height(index: number): number {
    const key = this.keys[index];
    return (key === undefined ? undefined : this.measured.get(key)) ?? this.estimate(index);
  }
}
