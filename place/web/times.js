// Times of the past as SQL and people write them: milliseconds since 1970 on one side, text in UTC on
// the other.

// Milliseconds that are not before a time that may be written with microseconds.
export const notBefore = (text) => Date.parse(text) + (/\.\d{4,}/.test(text) ? 1 : 0);
export const textOf = (time) => new Date(time).toISOString().replace("T", " ").replace("Z", "");

// A time for people, to the second.
export const toSecond = (time) => textOf(time).slice(0, 19);
