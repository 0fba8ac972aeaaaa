'use strict';

const ms = require('ms');

// How many whole minutes a nap takes: minutes('1.5h') is 90.
exports.minutes = function minutes(nap) {
  return Math.floor(ms(nap) / 1000);
};
