/** The byte of an ASCII character. */
export function code(character: string): number {
  return character.charCodeAt(0);
}
