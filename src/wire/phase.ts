/** For each phase of an object's life, the phases that can follow it. */
export type Transitions<Phase extends string> = Readonly<Record<Phase, readonly Phase[]>>;

/** In production a wrong transition must not end the process and everybody's queries with it. */
const isChecked = process.env['NODE_ENV'] === 'test';

/**
 * The next phase of an object, for the one function of its class that moves it on.
 *
 * @returns `to`
 * @throws Error in tests (NODE_ENV=test) if the table has no such transition
 */
export function nextPhase<Phase extends string>(transitions: Transitions<Phase>, from: Phase, to: Phase): Phase {
  if (isChecked && !transitions[from].includes(to)) throw new Error(`impossible transition: ${from} to ${to}`);
  return to;
}
