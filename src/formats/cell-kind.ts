import type { Constants } from '../wire/constants.ts';
import * as cellKinds from '../worker/kernel/shared/cell-kind.ts';

/** How the bytes of a cell are written. The kernel knows these kinds and no format. */
export const cellKind: Constants<typeof cellKinds> = { ...cellKinds };
export type CellKind = (typeof cellKind)[keyof typeof cellKind];
