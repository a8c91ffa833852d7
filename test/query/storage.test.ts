import t from 'tap';
import { Storage } from '#src/query/storage.js';

t.test('the storage counts what is put in and what is taken out', async (t) => {
  const storage = new Storage(100);
  t.equal(storage.bytes, 0);
  storage.change(70);
  storage.change(40);
  storage.change(-30);
  t.equal(storage.bytes, 80);
});

t.test('the storage is over when it holds more than its limit, and not at its limit', async (t) => {
  const storage = new Storage(100);
  storage.change(100);
  t.equal(storage.isOver, false);
  storage.change(1);
  t.equal(storage.isOver, true);
  storage.change(-1);
  t.equal(storage.isOver, false);
  t.equal(storage.bytesMax, 100);
});
