import { InvalidRequestError, oneLine } from './invalid-request.ts';

/** Values that a body may have beside those in `params`: pagination, session settings, and what is ignored. */
const otherValuesMax = 10_000;
/** Levels of lists and objects within one param, or within one other member of the body. */
const depthMax = 100;
/** The most digits with which every integer is held exactly by a double. */
const exactDigitsMax = 15;
/** Of a name that an error repeats. */
const namedCharactersMax = 100;
const namedBytesMax = 4 * namedCharactersMax;

const quote = 0x22;
const plus = 0x2b;
const comma = 0x2c;
const minus = 0x2d;
const point = 0x2e;
const colon = 0x3a;
const leftBracket = 0x5b;
const backslash = 0x5c;
const rightBracket = 0x5d;
const leftBrace = 0x7b;
const rightBrace = 0x7d;
const letterE = 0x65;
/** Turns an upper-case letter of ASCII into the lower-case one. */
const lowerCaseBit = 0x20;

const paramsKey = Buffer.from('"params"');

/**
 * Holds the JSON text of a body to limits on what parsing it costs, before it is parsed, and refuses numbers in `params` that
 * a double does not hold exactly: after the parse, nothing tells. It stops at the first value that is too many. It does not
 * check the grammar; text that is not JSON is left to the parser.
 * @param paramsMax values in `params`, those in lists and objects included
 * @throws InvalidRequestError
 */
export function scanJson(bytes: Buffer, paramsMax: number): void {
  new JsonScan(bytes, paramsMax).run();
}

class JsonScan {
  readonly #bytes: Buffer;
  readonly #paramsMax: number;
  #depth = 0;
  /** Where the last string at depth 1 or 2 begins and ends: a key if a colon follows. */
  #stringStart = 0;
  #stringEnd = 0;
  /** The key of the current member of the body; an empty range before the first one. */
  #memberStart = 0;
  #memberEnd = 0;
  #isInParams = false;
  /** The key of the current param, or an empty range if `params` is a list; then its index. */
  #paramStart = 0;
  #paramEnd = 0;
  #paramIndex = 0;
  #paramScalars = 0;
  #paramContainers = 0;
  #otherValues = 0;

  constructor(bytes: Buffer, paramsMax: number) {
    this.#bytes = bytes;
    this.#paramsMax = paramsMax;
  }

  run(): void {
    const bytes = this.#bytes;
    const { length } = bytes;
    for (let at = 0; at < length; ) {
      const byte = bytes[at] as number;
      switch (byte) {
        case quote:
          at = this.#string(at);
          break;
        case leftBracket:
        case leftBrace:
          this.#open();
          at++;
          break;
        case rightBracket:
        case rightBrace:
          this.#depth--;
          if (this.#depth === 1) this.#leaveParams();
          at++;
          break;
        case colon:
          this.#key();
          at++;
          break;
        case comma:
          if (this.#depth === 2) this.#paramIndex++;
          at++;
          break;
        default:
          at = isDigit(byte) || byte === minus ? this.#number(at) : isLetter(byte) ? this.#word(at) : at + 1;
      }
    }
  }

  /** @returns the end of the string that begins there */
  #string(start: number): number {
    const bytes = this.#bytes;
    const { length } = bytes;
    let at = start + 1;
    for (; at < length; at++) {
      const byte = bytes[at];
      if (byte === backslash) at++;
      else if (byte === quote) break;
    }
    const end = Math.min(at + 1, length);
    if (this.#depth <= 2) {
      this.#stringStart = start;
      this.#stringEnd = end;
    }
    this.#countScalar();
    return end;
  }

  /** The string before the colon was a key, and no value. */
  #key(): void {
    if (this.#isInParams) this.#paramScalars--;
    else this.#otherValues--;
    if (this.#depth === 1) {
      this.#memberStart = this.#stringStart;
      this.#memberEnd = this.#stringEnd;
    } else if (this.#depth === 2) {
      this.#paramStart = this.#stringStart;
      this.#paramEnd = this.#stringEnd;
    }
  }

  #open(): void {
    this.#depth++;
    // The body is level 1, and `params` level 2, so that the outermost list of a param is at level 3.
    if (this.#depth > depthMax + (this.#isInParams ? 2 : 1)) {
      throw new InvalidRequestError(`${this.#place()} is nested deeper than ${depthMax} levels`);
    }
    if (this.#isInParams) {
      this.#paramContainers++;
      if (this.#paramContainers > this.#paramsMax) throw tooManyParams(this.#paramsMax);
    } else {
      this.#countScalar();
      if (this.#depth === 2) {
        this.#isInParams = this.#isParamsMember();
        this.#paramStart = this.#paramEnd = this.#paramIndex = 0;
      }
    }
  }

  #number(start: number): number {
    const bytes = this.#bytes;
    const { length } = bytes;
    let at = start + 1;
    let isInteger = true;
    for (; at < length; at++) {
      const byte = bytes[at] as number;
      if (isDigit(byte)) continue;
      if (!isNumberByte(byte)) break;
      isInteger = false;
    }
    this.#countScalar();
    if (this.#isInParams && !(isInteger && at - start <= exactDigitsMax)) {
      const text = bytes.toString('latin1', start, at);
      if (!isExact(text)) {
        throw new InvalidRequestError(
          `${this.#place()} is or contains the number ${shortened(text, 40)}, which a JSON number (a double) does not carry ` +
            'exactly; send it as a string',
        );
      }
    }
    return at;
  }

  /** `true`, `false` or `null`. */
  #word(start: number): number {
    const { length } = this.#bytes;
    let at = start + 1;
    while (at < length && isLetter(this.#bytes[at] as number)) at++;
    this.#countScalar();
    return at;
  }

  #countScalar(): void {
    if (this.#isInParams) {
      this.#paramScalars++;
      // The last one may turn out to be a key.
      if (this.#paramScalars > this.#paramsMax + 1) throw tooManyParams(this.#paramsMax);
    } else {
      this.#otherValues++;
      if (this.#otherValues > otherValuesMax) {
        throw new InvalidRequestError(`the body has more than ${otherValuesMax} values beside those in "params"`);
      }
    }
  }

  #isParamsMember(): boolean {
    const key = this.#bytes.subarray(this.#memberStart, this.#memberEnd);
    return key.equals(paramsKey) || (key.includes(backslash) && decodedKey(key) === 'params');
  }

  #leaveParams(): void {
    if (this.#isInParams && this.#paramScalars > this.#paramsMax) throw tooManyParams(this.#paramsMax);
    this.#isInParams = false;
  }

  /** Names what is wrong, for its reader. */
  #place(): string {
    const member = this.#keyText(this.#memberStart, this.#memberEnd);
    if (member === '') return 'the body';
    if (!this.#isInParams) return `"${member}"`;
    const isNamed = this.#paramEnd > 0;
    return isNamed ? `"params.${this.#keyText(this.#paramStart, this.#paramEnd)}"` : `"params[${this.#paramIndex}]"`;
  }

  #keyText(start: number, end: number): string {
    const bytes = this.#bytes.subarray(start + 1, Math.max(start + 1, Math.min(end - 1, start + 1 + namedBytesMax)));
    return shortened(oneLine(bytes.toString()), namedCharactersMax);
  }
}

export function tooManyParams(paramsMax: number): InvalidRequestError {
  return new InvalidRequestError(
    `"params" has more than ${paramsMax} values, those in lists and objects included (--params_max); ` +
      'send a large list or object as a string of JSON',
  );
}

/** Whether the double that is next to a JSON number stands for the same value, so that nothing is lost unnoticed. */
export function isExact(text: string): boolean {
  const value = Number(text);
  // Not a number by JSON's grammar, which the parser says better.
  if (Number.isNaN(value)) return true;
  if (!Number.isFinite(value)) return false;
  // Integer columns hold values between these, and a double is compared with them as a double.
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 2 ** 64) return false;
  return normalized(text) === normalized(String(value));
}

/** The same text for every way to write a number: its significant digits, and the power of ten of the last one. */
function normalized(text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const [integer = '', fraction = ''] = mantissa.replace(/^[-+]/, '').split('.');
  const digits = integer + fraction;
  let start = 0;
  while (start < digits.length && digits[start] === '0') start++;
  if (start === digits.length) return '0';
  let end = digits.length;
  while (digits[end - 1] === '0') end--;
  return `${digits.slice(start, end)}e${Number(exponent) - fraction.length + (digits.length - end)}`;
}

function decodedKey(key: Buffer): unknown {
  try {
    return JSON.parse(key.toString());
  } catch {
    return null;
  }
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function isNumberByte(byte: number): boolean {
  return isDigit(byte) || byte === minus || byte === plus || byte === point || (byte | lowerCaseBit) === letterE;
}

function isLetter(byte: number): boolean {
  return (byte | lowerCaseBit) >= 0x61 && (byte | lowerCaseBit) <= 0x7a;
}

function shortened(text: string, charactersMax: number): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax)}...` : text;
}
