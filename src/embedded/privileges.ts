import { sampleDatabase } from './sample.ts';

/** `root` may create and drop schemas whose names begin with this. */
export const scratchPrefix = 'scratch';

/** The account that this process logs in as. MariaDB's own internal account is `mariadb.sys`. */
export const internalUser = 'sluice.sys';

const systemSchemas = "'mysql', 'sys', 'information_schema', 'performance_schema'";

/**
 * SQL for `mariadbd --init-file`: one statement per element, which may contain semicolons but no newlines. It runs before the
 * server accepts connections, at every start, so that a data directory of an earlier version is changed too.
 *
 * Every user of this machine can log in over HTTP as `root`, which has no password. So no account has a global privilege
 * (SUPER, FILE, CREATE USER, …) or a right in the system schemas. `root` has all rights except GRANT OPTION in the sample, in
 * schemas that an earlier version let it create, and in those whose names begin with `scratch`.
 *
 * @param password of the internal account: hexadecimal digits
 * @param proof a file that the last statement makes, in the folder of --secure-file-priv. It proves that none failed: if a
 * statement fails, MariaDB logs it, skips the rest and serves clients nevertheless.
 */
export function privilegeStatements(password: string, proof: string): string[] {
  return [
    'DELETE FROM mysql.proxies_priv',
    "UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '$.access', 0)",
    // These names are patterns, such as `%`.
    "DELETE FROM mysql.db WHERE 'mysql' LIKE Db OR 'sys' LIKE Db",
    // The views of MariaDB 10.4 and later on its grant tables run as mariadb.sys.
    "DELETE FROM mysql.tables_priv WHERE Db IN ('mysql', 'sys') AND User <> 'mariadb.sys'",
    "DELETE FROM mysql.columns_priv WHERE Db IN ('mysql', 'sys') AND User <> 'mariadb.sys'",
    'FLUSH PRIVILEGES',
    'CREATE USER IF NOT EXISTS root@localhost',
    `GRANT ALL ON \`${sampleDatabase}\`.* TO root@localhost`,
    `GRANT ALL ON \`${scratchPrefix}%\`.* TO root@localhost`,
    `BEGIN NOT ATOMIC FOR s IN (SELECT SCHEMA_NAME AS name FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN (${systemSchemas}))` +
      ` DO EXECUTE IMMEDIATE CONCAT('GRANT ALL ON \`', REGEXP_REPLACE(REPLACE(s.name, '\`', '\`\`'), '([_%\\\\\\\\])', '\\\\\\\\\\\\1'), '\`.* TO root@localhost');` +
      ' END FOR; END',
    `CREATE OR REPLACE USER '${internalUser}'@localhost IDENTIFIED BY '${password}'`,
    `GRANT SELECT ON \`${sampleDatabase}\`.* TO '${internalUser}'@localhost`,
    `SELECT 1 INTO OUTFILE ${quote(proof)}`,
  ];
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}
