const zone = /^[A-Za-z_]+(?:\/[A-Za-z0-9_+-]+)*$/;
const wholeHours = /^([+-])(0?\d|1[0-4]):00$/;

/**
 * The IANA name by which a client is to read timestamps.
 * @param variable the session's `time_zone`: a name, an offset, `SYSTEM`, or not known
 */
export function timezoneOf(variable: string | undefined): string {
  if (variable === undefined || variable.toUpperCase() === 'SYSTEM') return 'UTC';
  const offset = wholeHours.exec(variable);
  if (offset !== null) {
    const hours = Number(offset[2]);
    // Names of offsets have the sign of what is to be added to come to UTC.
    return hours === 0 ? 'UTC' : `Etc/GMT${offset[1] === '+' ? '-' : '+'}${hours}`;
  }
  return zone.test(variable) ? variable : 'UTC';
}
