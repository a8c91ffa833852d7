import { readFileSync } from 'node:fs';

/** A global of Node.js that @types/node does not declare. */
declare const WebAssembly: {
  readonly Module: new (source: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: object };
};

/**
 * Compiles a program that imports nothing.
 * @returns gives the exports of a new instance, which has a memory of its own
 */
export function compiled(program: URL): () => object {
  const module = new WebAssembly.Module(readFileSync(program));
  return () => new WebAssembly.Instance(module).exports;
}
