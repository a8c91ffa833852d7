const shownCharacters = 60;

/** A value that Arrow has no form for. */
export class UnrepresentableError extends Error {
  override readonly name = 'UnrepresentableError';
  readonly #value: string;
  readonly #advice: string;

  /**
   * @param value as the database prints it
   * @param advice what to do
   */
  constructor(value: string, advice: string, column?: string) {
    const where = column === undefined ? 'the value' : `column ${shown(column)} has the value`;
    super(`${where} ${shown(value)}, which has no form in Arrow: ${advice}`);
    this.#value = value;
    this.#advice = advice;
  }

  inColumn(name: string): UnrepresentableError {
    return new UnrepresentableError(this.#value, this.#advice, name);
  }
}

function shown(text: string): string {
  return JSON.stringify(text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text);
}
