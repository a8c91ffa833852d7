import { startEmbedded } from '#src/embedded/mariadb.js';

// A process of its own for the tests that kill one: it starts the database in the folder that it is given,
// tells its parent so in one line, and holds it until it is killed.
const [dataDir = ''] = process.argv.slice(2);
const database = await startEmbedded({
  dataDir,
  startTimeoutMs: 30_000,
  observe: (event) => {
    if (event.type === 'embedded_database') console.log(event.message);
  },
});
console.log(`ready ${database.socketPath}`);
