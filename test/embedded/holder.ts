import { startEmbedded } from '#src/embedded/mariadb.js';

// A separate process for the tests that kill one. It starts the database in the given folder, reports so in one line to its
// parent, and keeps it running until it is killed.
const [dataDir = ''] = process.argv.slice(2);
const database = await startEmbedded({
  dataDir,
  startTimeoutMs: 30_000,
  observe: (event) => {
    if (event.type === 'embedded_database') console.log(event.message);
  },
});
console.log(`ready ${database.socketPath}`);
