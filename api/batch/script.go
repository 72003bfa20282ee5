package batch

// ScriptAnnotation of the template of a Job's pods is the text of a batch script. "jobctl submit SCRIPT" sets it, with a volume of
// the downward API that shows it to the container as a file; the annotation has no other effect.
const ScriptAnnotation = "jobd.dev/script"
