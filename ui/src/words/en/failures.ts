export const failures = { title: "Failures" };
