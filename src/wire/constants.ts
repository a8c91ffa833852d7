/**
 * The type of a module of numeric constants. It goes through text because TypeScript widens the type of a constant that has
 * no annotation to `number`, and AssemblyScript, which compiles the same modules, has no literal types to annotate it with.
 */
export type Constants<Module> = {
  readonly [Name in keyof Module]: `${Module[Name] & number}` extends `${infer Value extends number}` ? Value : never;
};
