'use strict';

const assert = require('assert');
const { minutes } = require('./nap');

assert.strictEqual(minutes('1.5h'), 90);
assert.strictEqual(minutes('20m'), 20);
assert.strictEqual(minutes('59s'), 0);
console.log('3 assertions hold');
