export type TableName = keyof typeof tables;

/** The tables, each with an `id` before its columns, filled by the row's number alone: every run reads the same bytes. */
export const tables = {
  mixed: {
    columns: `account BIGINT NOT NULL, amount DECIMAL(12,2) NOT NULL, ratio DOUBLE, name VARCHAR(40) NOT NULL,
      note VARCHAR(80), day DATE NOT NULL, at DATETIME(3) NOT NULL`,
    values: `seq * 7919 % 9007199254740993, seq * 37 % 1000000 / 100, IF(seq % 11 = 0, NULL, seq / 13),
      CONCAT('name ', LEFT(SHA1(seq), 12)), IF(seq % 7 = 0, NULL, CONCAT('ground – ', MD5(seq))),
      DATE_ADD('2000-01-01', INTERVAL seq % 9000 DAY), DATE_ADD('2020-01-01 00:00:00.123', INTERVAL seq SECOND)`,
    rows: 1_000_000,
  },
  narrow: {
    columns: 'value INT NOT NULL',
    values: 'seq * 7919 % 2147483647',
    rows: 5_000_000,
  },
  /** Prose of 4,096 characters, with a line end, two quotes to be escaped and two characters of more than a byte in each line. */
  texts: {
    columns: 'body TEXT NOT NULL',
    values: `LEFT(REPEAT(CONCAT(MD5(seq), ' passed the “old” weir and said: "', SHA1(seq), '".\\n'), 40), 4096)`,
    rows: 100_000,
  },
  blobs: {
    columns: 'body LONGBLOB NOT NULL',
    values: 'REPEAT(UNHEX(SHA2(seq, 512)), 16384)',
    rows: 500,
  },
} as const;
