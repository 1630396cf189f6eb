"""Prints continuations of story openings and answers to chat questions, generated with transformers.

    python sample.py --model MODEL_DIR [--story OPENING ...] [--chat QUESTION ...] [--all]
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

STORIES = ["Once upon a time", "The robot", "Yesterday", "It was raining", "In the year 3000", "My grandmother", "Lily had a red ball.",
           "The dragon was", "One day, a little", "Deep in the forest", "the king", "I was walking home when", "There was a cat who",
           "Captain Zorbo looked at the stars.", "On Monday morning", "A penguin and a bear", "Mr. Brown opened the box.", "Why did the",
           "The computer would not start.", "\"Help!\" cried the mouse.", "Long ago, in China,", "Two friends", "Nobody knew", "The train",
           "When the sun came up", "Dr. Smith was worried.", "A bird", "Title: The Lost Key\n\n", "She", "Far away on the moon,", "Tom was hungry.", "Last night"]
CHATS = ["Hello!", "Who are you?", "Tell me a story about a dragon.", "Tell me a story about a cat and the beach.", "What is the capital of France?",
         "What is 3 plus 4?", "What is the opposite of hot?", "I am sad.", "How do I make a sandwich?", "What is a cat?", "What color is the sky?", "Tell me a joke.",
         "What can you do?", "Explain quantum physics.", "Count to five.", "Thank you!", "Goodbye!", "Name three animals.", "What does a cow say?", "Where do owls live?",
         "Why is the sky blue?", "Write a story about a brave little robot named Max.", "what should i eat for breakfast", "Can you help me?", "Is an apple a fruit?",
         "How many legs does a spider have?", "I'm bored", "What is love?", "Who was Napoleon?", "Write a haiku about the sea.", "What is your favorite color?",
         "Tell me about elephants.", "What is 12 times 12?", "Please tell me a bedtime story."]
TALKS = [["Hi, my name is Anna.", "What is the capital of Italy?", "What is my name?"], ["I have a dog.", "What animal do I have?"]]


def generate(model, tokenizer, ids, args):
    torch.manual_seed(args.seed)
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), max_new_tokens=args.tokens, do_sample=args.temperature > 0,
                             temperature=args.temperature or None, top_p=args.top_p, pad_token_id=0)
    return tokenizer.decode(out[0, len(ids):], skip_special_tokens=True)


def chat_ids(tokenizer, messages):
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--story", nargs="*", default=[])
    parser.add_argument("--chat", nargs="*", default=[])
    parser.add_argument("--all", action="store_true", help="use the built-in lists of openings and questions")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    for opening in args.story + STORIES * args.all:
        print(f"=== {opening!r}\n{opening}{generate(model, tokenizer, tokenizer(opening)['input_ids'], args)}\n", flush=True)
    for question in args.chat + CHATS * args.all:
        ids = chat_ids(tokenizer, [{"role": "user", "content": question}])
        print(f">>> {question}\n{generate(model, tokenizer, ids, args)}\n", flush=True)
    for talk in TALKS * args.all:
        messages = []
        for question in talk:
            messages.append({"role": "user", "content": question})
            answer = generate(model, tokenizer, chat_ids(tokenizer, messages), args)
            messages.append({"role": "assistant", "content": answer})
            print(f">>> {question}\n{answer}")
        print(flush=True)


if __name__ == "__main__":
    main()
