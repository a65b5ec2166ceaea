import { useEffect, useState } from "preact/hooks";

/** A value that components can follow. */
export class Store<T> {
  private readonly listeners = new Set<(value: T) => void>();

  constructor(public value: T) {}

  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener(value);
  }

  follow(listener: (value: T) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Resolve once the value satisfies the condition. */
  until(condition: (value: T) => boolean, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (condition(this.value) || signal?.aborted) return resolve();
      const end = this.follow((value) => {
        if (condition(value)) finish();
      });
      const finish = () => {
        end();
        signal?.removeEventListener("abort", finish);
        resolve();
      };
      signal?.addEventListener("abort", finish);
    });
  }
}

export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(store.value);
  useEffect(() => {
    setValue(() => store.value);
    return store.follow((changed) => setValue(() => changed));
  }, [store]);
  return value;
}
