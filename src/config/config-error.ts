/** A mistake in the flags or the environment. The message is one line that names the option. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
