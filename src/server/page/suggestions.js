// Suggestions for a model of its size: a model of a few million parameters can tell a story for children, and
// nothing else.

const STORY_PARAMETERS = 1e8;

// [title, rest]: the text is both, with a period.
const TASKS = [
  ["Tell me a story", "about a lighthouse keeper who finds a map"],
  ["Compare in a table", "B-trees, hash tables and skip lists"],
  ["Write a function", "that merges overlapping intervals, with tests"],
  ["Explain with formulas", "why attention scales its scores by √d"],
];
const STORIES = [
  ["Tell me a story", "about a cat who lost her red ball"],
  ["Tell me a story", "about a girl and a big dog in the park"],
  ["Tell me a story", "about a bird who could not fly"],
  ["Tell me a story", "about two friends on a rainy day"],
];
// For models without a chat template.
const TEXTS = ["The lighthouse keeper unrolled the map and", "The three most common mistakes in concurrent programs are", "def merge_intervals(intervals):\n    ", "In 1969, the first"];
const STORY_OPENINGS = ["Once upon a time, there was a little robot who", "Lily and Ben went to the park. They saw", "One day, a small bird found a", "Tom had a red ball. He"];

const tellsStories = (model) => model.num_parameters < STORY_PARAMETERS;

export function suggestionsFor(model) {
  return tellsStories(model) ? STORIES : TASKS;
}
export function openingsFor(model) {
  return tellsStories(model) ? STORY_OPENINGS : TEXTS;
}
