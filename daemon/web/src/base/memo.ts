// Remembers what was drawn, so that unchanged data leaves the page (and the reader's place) alone.

export class Memo {
  private last = "";

  /** Whether `data` differs from the last call's. */
  changed(...data: unknown[]): boolean {
    const text = JSON.stringify(data);
    if (text === this.last) return false;
    this.last = text;
    return true;
  }

  /** Acts where `data` has changed; after a failure the next call acts again. */
  async run(data: unknown[], act: () => Promise<void>): Promise<void> {
    if (!this.changed(...data)) return;
    try {
      await act();
    } catch (error) {
      this.last = "";
      throw error;
    }
  }
}
