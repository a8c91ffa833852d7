/** The events of a query, for EventEmitter. Any number of listeners may follow each. */
export interface QueryEvents {
  /** A page can be taken that could not be taken before. Emitted while a poll waits. */
  readable: [];
  /** More rows were examined or received. The database is asked for its count while there is a listener. */
  progress: [];
  /** The state is no longer Running. */
  settled: [];
  /** Rows of a statement that had succeeded are lost, and its state is Failed. */
  rowsLost: [];
  /** The statement runs in another session than the one that it was meant for. */
  moved: [];
  /** The query and its rows no longer exist. */
  removed: [];
}
