// The part of node's own modules that these tests use.
declare module 'node:test' {
  export function test(name: string, act: () => void|Promise<void>): void;
}
declare module 'node:assert/strict' {
  interface Assert {
    (value: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    equal(actual: unknown, expected: unknown, message?: string): void;
    match(text: string, pattern: RegExp, message?: string): void;
    rejects(what: Promise<unknown>, error: (thrown: any) => boolean): Promise<void>;
  }
  const assert: Assert;
  export default assert;
}
