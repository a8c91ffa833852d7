/** The reason of a file system error for clients, without the path. */
export function fileTrouble({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'there is no space left on the device';
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
    // Some file systems report it for a folder that cannot be created.
    case 'ENOENT':
      return 'the folder cannot be written';
    default:
      return code ?? message;
  }
}

/** Whether the file system has refused a call, as it does on a full or broken disk. Node's own errors have codes of another form. */
export function isFileError(error: unknown): error is NodeJS.ErrnoException {
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === 'string' && /^E[A-Z0-9]+$/.test(code);
}

/** Whether a file, or its folder, is not there. */
export function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
